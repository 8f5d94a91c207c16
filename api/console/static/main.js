// What each page needs: the parts that few pages have are loaded with them.
import { showTimes } from "./times.js";
import { enableActions, listenForActions } from "./actions.js";
import { follow } from "./live.js";

showTimes(document);
listenForActions();
enableActions(document);
follow();

async function prepare() {
  const has = (selector) => document.querySelector(selector) !== null;
  if (has("#editor")) {
    const names = ["./editor.js", "./trial.js", "./pipeline_words.js"];
    const [{ prepareEditor }, { prepareTrial }, { preparePipelineWords }] = await Promise.all(names.map((name) => import(name)));
    const editor = prepareEditor();
    if (editor) preparePipelineWords(editor);
    prepareTrial(editor);
  }
  if (has("#guide")) (await import("./guide.js")).prepareGuide();
  if (has("#sql")) (await import("./sql.js")).prepareSql();
  if (has("#differences")) (await import("./differences.js")).showDifferences();
  if (has("form[data-form]")) (await import("./forms.js")).prepareForms();
}

prepare();

// The notice belongs to the last thing that a person did: requests in the background leave it.
function clearNotice(event) {
  if (event.type === "submit" || event.target.closest("button")) document.getElementById("notice").textContent = "";
}
for (const kind of ["submit", "click"]) document.addEventListener(kind, clearNotice, true);

// The statements that SQL remembers are those of the person who signs out.
const signOut = document.querySelector('form[action$="/sign-out"]');
signOut?.addEventListener("submit", () => localStorage.removeItem("spindle-statements"));
