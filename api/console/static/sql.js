// The box for a statement over one dataset. Values are shown as text, and long ones are cut.
import { call, notify } from "./rest.js";

const LONGEST = 300, MOST_ROWS = 1000;

function cut(value) {
  const text = value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

function build(rows) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  const columns = Object.keys(rows[0]);
  for (const name of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = cut(name);
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const name of columns) line.insertCell().textContent = cut(row[name]);
  }
  const region = document.createElement("div");
  region.className = "scroll";
  region.tabIndex = 0;
  region.setAttribute("role", "group");
  region.setAttribute("aria-label", "Answer");
  region.append(table);
  return region;
}

function save(rows) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(rows, null, 1)], { type: "application/json" }));
  link.download = "rows.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

export function prepareSql() {
  const form = document.getElementById("sql");
  if (!form) return;
  const [statement, answer, button] = ["statement", "answer", "save"].map((id) => document.getElementById(id));
  let rows = [];
  document.getElementById("run").disabled = false;
  button.addEventListener("click", () => save(rows));
  statement.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { dataset: datasetId, version } = form.dataset;
    answer.textContent = "The query runs …";
    button.hidden = true;
    try {
      const body = { sql: statement.value, limit: MOST_ROWS, datasetId, ...(version ? { version } : {}) };
      rows = (await call("POST", "/datasets/query", body)).results;
      const heading = document.createElement("p");
      heading.textContent = rows.length === MOST_ROWS ? `The first ${MOST_ROWS} rows` : `Rows: ${rows.length}`;
      answer.replaceChildren(heading, ...(rows.length ? [build(rows)] : []));
      button.hidden = !rows.length;
    } catch (error) {
      answer.textContent = "";
      notify(error);
    }
  });
}
