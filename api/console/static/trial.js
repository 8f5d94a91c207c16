// `try` beside the editor: rows, the fetched page, and selectors for the element that is clicked.
import { createPageView } from "./page_view.js";
import { call, notify } from "./rest.js";
import { executeAgent } from "./start.js";
import { buildTable } from "./tables.js";
import { fill, texts } from "./texts.js";

const ROWS_RUN = 20;

export function readParameters(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const place = line.indexOf("=");
    return place < 0 ? [line, ""] : [line.slice(0, place).trim(), line.slice(place + 1).trim()];
  }));
}

export function listTexts(lines, kind = "") {
  return lines.map((text) => {
    const item = document.createElement("li");
    item.className = kind;
    item.textContent = text;
    return item;
  });
}

export function prepareTrial(editor) {
  const form = document.getElementById("trial");
  if (!form || !editor) return;
  const ids = ["pipeline", "address", "parameters", "try", "run", "notes", "rows", "page", "page-name", "frame", "cover",
    "element", "proposals", "selectors", "pages"];
  const [text, address, parameters, tryIt, run, notes, rows, page, pageName, frame, cover, element, proposals,
    selectors, pages] = ids.map((id) => document.getElementById(id));
  const view = createPageView(frame, cover, (words) => (element.textContent = words), propose);
  const untouched = text.value;
  let answer = null, turn = 0;

  async function attempt(url = address.value.trim()) {
    const mine = ++turn;
    tryIt.disabled = true;
    element.textContent = texts.trial.pages_are_fetched;
    try {
      const drafts = !editor.agent && url && text.value === untouched;
      const body = { parameters: readParameters(parameters.value), ...(url ? { url } : {}) };
      if (!drafts) Object.assign(body, { pipelineYaml: text.value, ...(editor.agent ? { agentId: editor.agent } : {}) });
      const found = await call("POST", "/agents/try", body);
      if (mine !== turn) return;
      answer = found;
      if (drafts) editor.write(found.pipeline);
      await show();
    } catch (error) {
      if (mine === turn) element.textContent = "";
      notify(error);
    } finally {
      tryIt.disabled = false;
    }
  }

  async function show() {
    const { problem, notes: said, rows: found, columns, shown } = answer;
    notes.replaceChildren(...listTexts(problem ? [problem] : [], "problem"), ...listTexts(said, "warning"));
    const none = document.createElement("p");
    none.className = "empty";
    none.textContent = texts.trial.no_row;
    rows.replaceChildren(found.length ? buildTable(found, texts.trial.rows, columns) : none);
    proposals.replaceChildren();
    element.textContent = "";
    page.hidden = !shown?.html;
    pageName.textContent = shown ? `${shown.url}${shown.problem ? `: ${shown.problem}` : ""}` : texts.trial.no_page;
    pages.replaceChildren(...answer.pages.map((url) => buildChoice(url, url === shown?.url, () => attempt(url))));
    selectors.replaceChildren(...answer.selectors.map((each) => {
      const item = buildChoice(each.selector, false, () => editor.go(each.line));
      item.append(` ${fill(texts.trial.finds, { count: each.elements.length })}`);
      item.addEventListener("mouseenter", () => markLine(each.line));
      item.addEventListener("focusin", () => markLine(each.line));
      return item;
    }));
    if (shown?.html) {
      await view.show(shown.html);
      element.textContent = texts.trial.click_an_element;
    }
  }

  function buildChoice(words, current, act) {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = words;
    if (current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", act);
    item.append(button);
    return item;
  }

  function buildValue(value) {
    const item = document.createElement("li");
    item.textContent = value ?? texts.trial.nothing;
    if (value === null) item.className = "empty";
    return item;
  }

  // The selectors of a line of the editor, whose places are those of the text that was tried.
  function markLine(line) {
    if (!answer) return;
    const there = answer.selectors.filter((each) => each.line === line && text.value.slice(each.start, each.end).includes(each.selector));
    view.mark(there.flatMap((each) => each.elements), "found");
  }

  async function propose(number) {
    const mine = ++turn;
    element.textContent = texts.trial.looking;
    proposals.replaceChildren();
    const line = document.getElementById("replace").checked ? { line: editor.line() } : {};
    try {
      const body = { html: answer.shown.html, element: number, pipelineYaml: text.value, ...line };
      const found = await call("POST", "/agents/propose-selectors", body);
      if (mine !== turn) return;
      element.textContent = found.length === 1 ? texts.trial.one_selector : fill(texts.trial.selectors, { count: found.length });
      proposals.replaceChildren(...found.map((each) => {
        const item = buildChoice(each.selector, false, () => {
          editor.write(each.pipeline);
          attempt(answer.shown.url);
        });
        const values = document.createElement("ol");
        values.append(...each.rows.map(buildValue));
        const quoted = each.texts.map((one) => `“${one}”`).join(", ");
        const { elements, stability } = each;
        item.append(` ${fill(texts.trial.proposal, { count: elements.length, stability, values: quoted })}`, values);
        const mark = () => view.mark(each.elements, "found");
        item.addEventListener("mouseenter", mark);
        item.addEventListener("focusin", mark);
        return item;
      }));
      proposals.querySelector("button")?.focus({ preventScroll: true });
    } catch (error) {
      element.textContent = "";
      notify(error);
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt();
  });
  text.addEventListener("mousemove", (event) => markLine(editor.lineAt(event)));
  text.addEventListener("mouseleave", () => markLine(editor.line()));
  for (const name of ["keyup", "click"]) text.addEventListener(name, () => markLine(editor.line()));
  run?.addEventListener("click", async () => {
    run.disabled = true;
    try {
      const agent = await editor.save();
      if (!agent) return;
      const { project, job } = run.dataset;
      const options = { limit: ROWS_RUN, publish: false, parameters: readParameters(parameters.value) };
      await executeAgent(agent, project ? { project, job } : null, options);
    } catch (error) {
      notify(error);
    } finally {
      run.disabled = false;
    }
  });
  tryIt.disabled = false;
  if (run) run.disabled = false;
}
