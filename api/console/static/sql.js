// The box for a statement over one dataset, with the statements that this browser ran before.
import { attachCompletion } from "./completion.js";
import { call, notify } from "./rest.js";
import { createNames } from "./table_names.js";
import { buildTable } from "./tables.js";
import { fill, texts } from "./texts.js";

const MOST_ROWS = 1000, MOST_STATEMENTS = 30, HISTORY = "spindle-statements";

function save(rows) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(rows, null, 1)], { type: "application/json" }));
  link.download = "rows.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

function readHistory() {
  try {
    const found = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
  } catch {
    return []; // a browser that keeps nothing, or something else under this name
  }
}

function remember(statement) {
  const kept = [statement, ...readHistory().filter((each) => each !== statement)].slice(0, MOST_STATEMENTS);
  try {
    localStorage.setItem(HISTORY, JSON.stringify(kept));
  } catch {
    // there is no space, or the browser keeps nothing: the statement has run all the same
  }
}

export function prepareSql() {
  const form = document.getElementById("sql");
  if (!form) return;
  const ids = ["statement", "answer", "save", "history", "suggestions", "count"];
  const [statement, answer, button, history, suggestions, count] = ids.map((id) => document.getElementById(id));
  let rows = [];

  function showHistory() {
    history.replaceChildren(history.options[0], ...readHistory().map((each) => new Option(each.replace(/\s+/g, " ").slice(0, 80), each)));
    history.value = "";
  }

  document.getElementById("run").disabled = false;
  button.addEventListener("click", () => save(rows));
  history.addEventListener("change", () => {
    if (history.value) statement.value = history.value;
    history.value = "";
    statement.focus();
  });
  statement.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { dataset: datasetId, version } = form.dataset;
    answer.textContent = texts.sql.query_runs;
    button.hidden = true;
    try {
      const body = { sql: statement.value, limit: MOST_ROWS, datasetId, ...(version ? { version } : {}) };
      rows = (await call("POST", "/datasets/query", body)).results;
      remember(body.sql);
      showHistory();
      const heading = document.createElement("p");
      heading.textContent = fill(rows.length === MOST_ROWS ? texts.sql.first_rows : texts.sql.rows, { count: rows.length });
      answer.replaceChildren(heading, ...(rows.length ? [buildTable(rows, texts.sql.answer)] : []));
      button.hidden = !rows.length;
    } catch (error) {
      answer.textContent = "";
      notify(error);
    }
  });
  showHistory();
  attachCompletion(statement, suggestions, count, createNames(form.dataset));
}
