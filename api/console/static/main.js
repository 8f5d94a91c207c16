import { showTimes } from "./times.js";
import { listenForActions } from "./actions.js";
import { follow } from "./live.js";
import { prepareSql } from "./sql.js";

showTimes(document);
listenForActions();
prepareSql();
follow();
