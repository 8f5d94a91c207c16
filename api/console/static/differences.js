// The rows that differ between two versions: those of a query in the background.
import { call, notify } from "./rest.js";
import { buildTable } from "./tables.js";
import { fill, texts } from "./texts.js";

const MOST_ROWS = 200, PAUSE = 500;

export async function showDifferences() {
  const place = document.getElementById("differences");
  if (!place) return;
  for (;;) {
    try {
      const { rows, rowCount } = await call("GET", `/datasets/queries/${place.dataset.query}/results?limit=${MOST_ROWS}`);
      const words = document.createElement("p");
      words.textContent = rowCount > rows.length
        ? fill(texts.differences.first_rows, { count: rows.length, all: rowCount })
        : fill(texts.differences.rows, { count: rowCount });
      place.replaceChildren(words, ...(rows.length ? [buildTable(rows, texts.differences.rows_that_differ)] : []));
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
