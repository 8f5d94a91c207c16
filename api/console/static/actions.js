// Buttons that call an operation of the REST API, then open the page that `data-then` names, or this one again.
// An `output` beside the button shows the answer instead: a test of a credential or of a rule.
import { refresh } from "./live.js";
import { call, notify } from "./rest.js";
import { fill, texts } from "./texts.js";

function describe({ message, state, tries }) {
  if (message !== undefined) return message;
  const { error, milliseconds, status } = tries.at(-1);
  if (state === "DELIVERED") return fill(texts.actions.accepted, { milliseconds });
  return fill(texts.actions.not_reached, { reason: error ?? fill(texts.actions.status, { status }) });
}

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
    const place = button.nextElementSibling;
    button.disabled = true;
    try {
      const answer = await call(action, path, body ? JSON.parse(body) : undefined);
      if (then) location.assign(then.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer[name])));
      else if (place?.localName === "output") {
        place.textContent = describe(answer);
        button.disabled = false;
        await refresh();
      } else location.reload();
    } catch (error) {
      button.disabled = false;
      notify(error);
    }
  });
}
