// Tables of rows. Values are shown as text, and long ones are cut.
const LONGEST = 300;

export function cut(value) {
  const text = value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

// Return a region with the rows, which scrolls by itself.
export function buildTable(rows, label, columns = Object.keys(rows[0])) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
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
  region.setAttribute("aria-label", label);
  region.append(table);
  return region;
}
