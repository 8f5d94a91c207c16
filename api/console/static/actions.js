// Buttons that call an operation of the REST API, then open the page that `data-then` names, or this one again.
import { call, notify } from "./rest.js";

// Buttons are rendered disabled: before this script runs, a click would do nothing.
export function enableActions(root) {
  for (const button of root.querySelectorAll("button[data-action]")) button.disabled = false;
}

export function listenForActions() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-action]");
    if (!button) return;
    const { action, path, then, body, confirm: question } = button.dataset;
    if (question && !confirm(question)) return;
    button.disabled = true;
    try {
      const answer = await call(action, path, body ? JSON.parse(body) : undefined);
      if (then) location.assign(then.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer[name])));
      else location.reload();
    } catch (error) {
      button.disabled = false;
      notify(error);
    }
  });
}
