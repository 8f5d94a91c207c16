// Names of tables and columns for the word before the cursor of a statement.
import { call } from "./rest.js";

const MOST = 8, SHORTEST = 1;
const WORD = /[\w.]+$/;

export function prepareCompletion(statement, list, own) {
  const columns = new Map(); // by "schema.table"
  let tables = null, options = [], active = -1, start = 0;

  async function loadColumns(name, schema, table) {
    if (columns.has(name)) return;
    columns.set(name, []);
    const query = new URLSearchParams({ table, schema });
    const found = await call("GET", `/datasets/query/columns?${query}`).catch(() => []);
    columns.set(name, found.map((each) => each.name));
  }

  async function load() {
    if (tables) return;
    tables = ["output"];
    await loadColumns("output", own.schema, own.table);
    const found = await call("GET", "/datasets/query/tables").catch(() => []);
    tables = ["output", ...found.map((each) => `${each.schema}.${each.name}`)];
  }

  const quote = (name) => (/^[a-z_]\w*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

  function close() {
    list.hidden = true;
    active = -1;
    statement.removeAttribute("aria-activedescendant");
  }

  function accept(place) {
    const end = statement.selectionEnd;
    statement.setRangeText(options[place], start, end, "end");
    close();
    statement.focus();
  }

  function activate(place) {
    active = (place + options.length) % options.length;
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === active)));
    statement.setAttribute("aria-activedescendant", `suggestion-${active}`);
  }

  async function suggest() {
    await load();
    const word = WORD.exec(statement.value.slice(0, statement.selectionStart))?.[0] ?? "";
    if (word.length < SHORTEST) return close();
    for (const name of tables.slice(1)) {
      if (statement.value.includes(name)) await loadColumns(name, ...name.split("."));
    }
    const all = new Set([...[...columns.values()].flat().map(quote), ...tables]);
    const begins = word.toLowerCase();
    options = [...all].filter((each) => each.replace(/^"/, "").toLowerCase().startsWith(begins) && each !== word).slice(0, MOST);
    if (!options.length) return close();
    start = statement.selectionStart - word.length;
    list.replaceChildren(...options.map((each, place) => {
      const item = document.createElement("li");
      item.id = `suggestion-${place}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.textContent = each;
      item.addEventListener("mousedown", (event) => {
        event.preventDefault();
        accept(place);
      });
      return item;
    }));
    active = -1;
    list.hidden = false;
  }

  statement.addEventListener("input", suggest);
  statement.addEventListener("blur", close);
  statement.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") activate(active + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Escape") close();
    else if ((event.key === "Enter" || event.key === "Tab") && active >= 0) accept(active);
    else return;
    event.preventDefault();
  });
}
