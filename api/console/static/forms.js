// Forms that call an operation of the REST API: the fields are those of its body, and its problems go to them.
import { Refusal, call, notify } from "./rest.js";
import { texts } from "./texts.js";

function readFields(form) {
  const body = {};
  for (const field of form.querySelectorAll("[name]")) {
    if (field.type === "checkbox") {
      body[field.name] ??= [];
      if (field.checked) body[field.name].push(field.value);
    } else if (field.type === "date") {
      if (field.value) body[field.name] = new Date(`${field.value}T23:59:59`).toISOString();
    } else if (field.type === "number") body[field.name] = Number(field.value);
    else if ("list" in field.dataset) body[field.name] = field.value.split(/[\s,;]+/).filter(Boolean);
    else if (!("json" in field.dataset)) body[field.name] = field.value;
    else {
      try {
        body[field.name] = JSON.parse(field.value || "null");
      } catch {
        throw new Refusal(texts.forms.no_json, 400, [{ path: field.name, message: texts.forms.is_no_json }]);
      }
    }
  }
  return body;
}

// Show each problem at its field; return whether all have one.
function showProblems(form, details) {
  let shown = details.length > 0, first = null;
  for (const field of form.querySelectorAll("[name]")) {
    const found = details.filter(({ path }) => path.split(/[.[]/)[0] === field.name);
    const place = document.getElementById(`e-${field.name}`);
    if (place) place.textContent = found.map(({ message }) => message).join(" ");
    field.setAttribute("aria-invalid", String(found.length > 0));
    if (found.length) first ??= field;
  }
  for (const { path } of details) shown &&= Boolean(document.getElementById(`e-${path.split(/[.[]/)[0]}`));
  first?.focus();
  return shown;
}

export function prepareForms() {
  for (const field of document.querySelectorAll("[data-zone]")) field.value = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const form of document.querySelectorAll("form[data-form]")) {
    const button = form.querySelector("button");
    if (!button) continue;
    button.disabled = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        const { method, path, etag, then } = form.dataset;
        const body = readFields(form);
        showProblems(form, []);
        const answer = await call(method, path, body, etag ? { "If-Match": etag } : {});
        if (then) location.assign(then.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer[name])));
        else if (answer.key === undefined) location.reload();
        else showKey(form, answer.key);
      } catch (error) {
        button.disabled = false;
        if (!(error instanceof Refusal) || !showProblems(form, error.details)) notify(error);
      }
    });
  }
}

// The secret of a new key is shown once.
function showKey(form, key) {
  const code = document.createElement("code");
  code.textContent = key;
  form.querySelector("output").replaceChildren(texts.forms.copy_the_key, " ", code);
  form.reset();
  form.querySelector("button").disabled = false;
}
