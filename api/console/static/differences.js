// The rows that differ between two versions: those of a query in the background.
import { call, notify } from "./rest.js";
import { buildTable } from "./tables.js";

const MOST_ROWS = 200, PAUSE = 500;

export async function showDifferences() {
  const place = document.getElementById("differences");
  if (!place) return;
  for (;;) {
    try {
      const { rows, rowCount } = await call("GET", `/datasets/queries/${place.dataset.query}/results?limit=${MOST_ROWS}`);
      const words = document.createElement("p");
      words.textContent = rowCount > rows.length ? `The first ${rows.length} of ${rowCount} rows` : `Rows: ${rowCount}`;
      place.replaceChildren(words, ...(rows.length ? [buildTable(rows, "Rows that differ")] : []));
      return;
    } catch (error) {
      if (error.details?.[0]?.code !== "query-unfinished") {
        place.textContent = "";
        return notify(error);
      }
      await new Promise((resume) => setTimeout(resume, PAUSE));
    }
  }
}
