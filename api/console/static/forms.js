// Forms that send their fields to an operation of the REST API. The secret of a new key is shown, once.
import { call, notify } from "./rest.js";

function readFields(form) {
  const body = {};
  for (const field of form.elements) {
    if (field.type === "checkbox") {
      body[field.name] ??= [];
      if (field.checked) body[field.name].push(field.value);
    } else if (field.type === "date") {
      if (field.value) body[field.name] = new Date(`${field.value}T23:59:59`).toISOString();
    } else if (field.name) body[field.name] = field.value;
  }
  return body;
}

export function prepareForms() {
  for (const form of document.querySelectorAll("form[data-action]")) {
    const button = form.querySelector("button");
    button.disabled = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        const answer = await call(form.dataset.action, form.dataset.path, readFields(form));
        if (answer.key === undefined) location.reload();
        else showKey(form, answer.key);
      } catch (error) {
        notify(error);
      }
      button.disabled = false;
    });
  }
}

function showKey(form, key) {
  const code = document.createElement("code");
  code.textContent = key;
  form.querySelector("output").replaceChildren("Copy the key now, it is not shown again: ", code);
  form.reset();
}
