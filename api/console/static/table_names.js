// Names of tables and columns for the word before the cursor of a statement.
import { call } from "./rest.js";

const MOST = 8;
const WORD = /[\w.]+$/;

export function createNames(own) {
  const columns = new Map(); // by "schema.table"
  let tables = null;

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

  return async (statement, wanted) => {
    await load();
    const word = WORD.exec(statement.value.slice(0, statement.selectionStart))?.[0] ?? "";
    if (!word && !wanted) return null;
    for (const name of tables.slice(1)) {
      if (statement.value.includes(name)) await loadColumns(name, ...name.split("."));
    }
    const all = new Set([...[...columns.values()].flat().map(quote), ...tables]);
    const begins = word.toLowerCase();
    const found = [...all].filter((each) => each.replace(/^"/, "").toLowerCase().startsWith(begins) && each !== word);
    return { start: statement.selectionStart - word.length, options: found.slice(0, MOST).map((text) => ({ text })) };
  };
}
