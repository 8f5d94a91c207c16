// Stages, arguments and values for the place of the cursor in a pipeline, and help for that place or for the mouse's.
import { attachCompletion } from "./completion.js";
import { call } from "./rest.js";

const PAUSE = 250;
// Where a word may begin: after a line's beginning alone, nothing is asked until a letter is typed.
const BEGINS = /[:\-,[{]\s+$|[[{]$/;

export function preparePipelineWords(editor) {
  const ids = ["pipeline", "suggestions", "count", "help"];
  const [text, list, count, help] = ids.map((id) => document.getElementById(id));
  let timer = null, turn = 0;

  // Columns count characters, the positions of the box units of UTF-16.
  async function ask(offset) {
    const before = text.value.slice(0, offset), start = before.lastIndexOf("\n") + 1;
    const column = [...before.slice(start)].length + 1, line = before.split("\n").length;
    const found = await call("POST", "/agents/complete", { pipelineYaml: text.value, line, column });
    const kept = [...before.slice(start)].slice(0, found.start - 1).join("").length;
    return { ...found, start: start + kept };
  }

  async function suggest(box, wanted) {
    const before = box.value.slice(0, box.selectionStart);
    if (!wanted && /\s$/.test(before) && !BEGINS.test(before)) return null;
    try {
      const found = await ask(box.selectionStart);
      explain(found.help);
      return { start: found.start, options: found.suggestions };
    } catch {
      return null; // the check of the text tells what is wrong with the session or the service
    }
  }

  function explain(words) {
    help.replaceChildren(...words.flatMap((each) => {
      const name = document.createElement("dt"), about = document.createElement("dd");
      name.textContent = each.text;
      about.textContent = each.about;
      return [name, about];
    }));
  }

  function explainLater(offset) {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = ++turn;
      const found = await ask(offset()).catch(() => null);
      if (found && mine === turn) explain(found.help);
    }, PAUSE);
  }

  function place(shown, start) {
    const { left, top } = editor.locate(start);
    shown.style.left = `${Math.max(0, Math.min(left, text.clientWidth - shown.offsetWidth))}px`;
    shown.style.top = `${top}px`;
  }

  attachCompletion(text, list, count, suggest, place);
  for (const name of ["keyup", "click"]) {
    text.addEventListener(name, (event) => {
      if (event.key !== "Escape" && !event.ctrlKey) explainLater(() => text.selectionStart);
    });
  }
  text.addEventListener("mousemove", (event) => {
    const offset = editor.offsetAt(event);
    explainLater(() => offset);
  });
  text.addEventListener("mouseleave", () => explainLater(() => text.selectionStart));
}
