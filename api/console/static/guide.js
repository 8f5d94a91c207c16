// The first visit: an address, its first rows, and a crawl of all of it.
import { call, notify } from "./rest.js";
import { createNamed, executeAgent } from "./start.js";
import { buildTable } from "./tables.js";
import { texts } from "./texts.js";
import { listTexts } from "./trial.js";

export function prepareGuide() {
  const form = document.getElementById("guide");
  if (!form) return;
  const ids = ["shop", "pipeline", "look", "first", "first-rows", "notes", "crawl"];
  const [shop, pipeline, look, first, rows, notes, crawl] = ids.map((id) => document.getElementById(id));
  const parameters = () => ({ SHOP_URL: shop.value.trim() });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    look.disabled = true;
    try {
      const found = await call("POST", "/agents/try", { pipelineYaml: pipeline.value, parameters: parameters(), rows: 5 });
      notes.replaceChildren(...listTexts(found.problem ? [found.problem] : [], "problem"), ...listTexts(found.notes, "warning"));
      rows.replaceChildren(...(found.rows.length ? [buildTable(found.rows, texts.guide.first_rows, found.columns)] : []));
      first.hidden = false;
      crawl.disabled = !found.rows.length;
      (found.rows.length ? crawl : shop).focus();
    } catch (error) {
      notify(error);
    } finally {
      look.disabled = false;
    }
  });
  crawl.addEventListener("click", async () => {
    crawl.disabled = true;
    try {
      const agent = await createNamed("/agents", texts.guide.shop_crawler, { pipelineYaml: pipeline.value });
      await executeAgent(agent, null, { parameters: parameters() });
    } catch (error) {
      crawl.disabled = false;
      notify(error);
    }
  });
  look.disabled = false;
}
