// The editor of an agent's pipeline: problems at their lines while one types, the plan, and saving.
import { call, notify } from "./rest.js";
import { fill, texts } from "./texts.js";

const PAUSE = 400;

function list(problems, kind, go) {
  return problems.map(({ line, message }) => {
    const item = document.createElement("li");
    item.className = kind;
    if (line) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = fill(texts.editor.line, { line });
      button.addEventListener("click", () => go(line));
      item.append(button, " ");
    }
    item.append(message);
    return item;
  });
}

export function prepareEditor() {
  const form = document.getElementById("editor");
  if (!form) return null;
  const ids = ["pipeline", "lines", "problems", "plan", "verdict", "store"];
  const [text, lines, problems, plan, verdict, store] = ids.map((id) => document.getElementById(id));
  let { agent: agentId, category, etag } = form.dataset;
  let timer = null, asked = 0, saved = text.value;

  function number(marked) {
    const rows = text.value.split("\n").map((_, place) => {
      const row = document.createElement("span");
      row.textContent = place + 1;
      row.className = marked.get(place + 1) ?? "";
      return row;
    });
    lines.replaceChildren(...rows);
    lines.scrollTop = text.scrollTop;
  }

  function go(line) {
    const start = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = text.value.indexOf("\n", start);
    text.focus();
    text.setSelectionRange(start, end < 0 ? text.value.length : end);
  }

  async function check() {
    const turn = ++asked;
    try {
      const found = await call("POST", "/agents/check", { pipelineYaml: text.value, ...(agentId ? { agentId } : {}) });
      if (turn !== asked) return; // a later text has been sent
      const marked = new Map(found.warnings.map(({ line }) => [line, "warn"]));
      for (const { line } of found.problems) marked.set(line, "bad");
      number(marked);
      problems.replaceChildren(...list(found.problems, "problem", go), ...list(found.warnings, "warning", go));
      plan.textContent = found.plan ?? "";
      const count = found.problems.length;
      verdict.textContent = [texts.editor.valid, texts.editor.one_problem][count] ?? fill(texts.editor.problems, { count });
    } catch (error) {
      notify(error);
    }
  }

  // Return the agent that was stored; null where it was refused.
  async function save() {
    store.disabled = true;
    try {
      const body = { pipelineYaml: text.value };
      if (agentId) {
        const answer = await call("PUT", `/agents/${category}/${agentId}`, body, { "If-Match": etag });
        etag = answer.etag;
        saved = body.pipelineYaml;
        verdict.textContent = texts.editor.saved;
        return answer;
      }
      const name = document.getElementById("name");
      if (!name.reportValidity()) return null;
      const created = await call("POST", "/agents", { ...body, name: name.value });
      saved = body.pipelineYaml;
      ({ id: agentId, etag } = created);
      category = created.categoryId ?? "none";
      return created;
    } catch (error) {
      notify(error);
      return null;
    } finally {
      store.disabled = false;
    }
  }

  text.addEventListener("scroll", () => (lines.scrollTop = text.scrollTop));
  text.addEventListener("input", () => {
    number(new Map());
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const isNew = !agentId, stored = await save();
    if (stored && isNew) location.assign(`/console/agents/${stored.id}`);
  });
  window.addEventListener("beforeunload", (event) => text.value !== saved && event.preventDefault());
  if (store) store.disabled = false;
  check();

  function write(changed) {
    text.value = changed;
    text.dispatchEvent(new Event("input"));
  }

  // Pixels of the text: where it begins in its box, the height of a line, the width of a character.
  function measure() {
    const style = getComputedStyle(text), pen = document.createElement("canvas").getContext("2d");
    pen.font = style.font;
    const [left, top, height] = [style.paddingLeft, style.paddingTop, style.lineHeight].map(parseFloat);
    return { left: left - text.scrollLeft, top: top - text.scrollTop, height, width: pen.measureText("0").width };
  }

  function lineAt(event) {
    const { top, height } = measure();
    return Math.floor((event.clientY - text.getBoundingClientRect().top - top) / height) + 1;
  }

  // The position in the text that the mouse points at.
  function offsetAt(event) {
    const { left, width } = measure(), rows = text.value.split("\n"), row = Math.min(lineAt(event), rows.length);
    const column = Math.floor((event.clientX - text.getBoundingClientRect().left - left) / width);
    const before = rows.slice(0, row - 1).reduce((sum, each) => sum + each.length + 1, 0);
    return before + Math.max(0, Math.min(column, rows[row - 1].length));
  }

  // The place under a position of the text, in the box around the editor.
  function locate(offset) {
    const { left, top, height, width } = measure(), rows = text.value.slice(0, offset).split("\n");
    return { left: text.offsetLeft + left + rows.at(-1).length * width, top: text.offsetTop + top + rows.length * height };
  }

  const line = () => text.value.slice(0, text.selectionStart).split("\n").length;
  return { agent: agentId, save, write, go, line, lineAt, locate, offsetAt };
}
