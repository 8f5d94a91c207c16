import { showTimes } from "./times.js";
import { enableActions, listenForActions } from "./actions.js";
import { prepareEditor } from "./editor.js";
import { prepareForms } from "./forms.js";
import { follow } from "./live.js";
import { prepareSql } from "./sql.js";

showTimes(document);
listenForActions();
enableActions(document);
prepareSql();
prepareEditor();
prepareForms();
follow();
