// The editor of an agent's pipeline: problems at their lines while one types, the plan, and saving.
import { call, notify } from "./rest.js";

const PAUSE = 400;

function list(problems, kind, go) {
  return problems.map(({ line, message }) => {
    const item = document.createElement("li");
    item.className = kind;
    if (line) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = `Line ${line}`;
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
      verdict.textContent = count ? `${count} problem${count > 1 ? "s" : ""}` : "The pipeline is valid.";
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
        verdict.textContent = "Saved.";
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

  function lineAt(event) {
    const style = getComputedStyle(text);
    const top = text.getBoundingClientRect().top + parseFloat(style.paddingTop);
    return Math.floor((event.clientY - top + text.scrollTop) / parseFloat(style.lineHeight)) + 1;
  }

  const line = () => text.value.slice(0, text.selectionStart).split("\n").length;
  return { agent: agentId, save, write, go, line, lineAt };
}
