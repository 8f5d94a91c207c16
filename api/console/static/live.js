// Keep the parts marked `data-live` as the server renders them: after events of `data-stream`, or every few seconds.
import { enableActions } from "./actions.js";
import { Refusal, notify, send } from "./rest.js";
import { showTimes } from "./times.js";

// Milliseconds; each fetch renders the page anew, so figures that change all the time wait longer than states.
const OF_STATE = 300, OF_PROGRESS = 3000, RECONNECT = 2000;
let due = null;
let running = Promise.resolve();
let ended = false;
let seen = "0"; // the id of the last event: the page that is fetched is not older

export async function refresh() {
  if (!document.querySelector("[data-live]")) return;
  const response = await fetch(location.href, { headers: { "X-Spindle-Event": seen } });
  if (response.status === 401) {
    ended = true;
    return notify(new Refusal(""));
  }
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const current = page.getElementById(old.id);
    if (current) replace(old, current);
  }
  document.title = page.title;
  if (!page.body.dataset.stream && !page.body.dataset.refresh) ended = true;
}

const shown = new WeakMap();

function show(element) {
  const markup = element.outerHTML;
  const adopted = document.adoptNode(element);
  showTimes(adopted);
  enableActions(adopted);
  shown.set(adopted, markup);
  return adopted;
}

function replace(old, current) {
  if (shown.get(old) === current.outerHTML || old.querySelector("select:focus")) return;
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  const log = old.querySelector(".log")?.scrollTop;
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  const added = show(current);
  old.replaceWith(added);
  added.querySelectorAll("details").forEach((each, place) => (each.open = open[place] ?? false));
  if (log !== undefined && added.querySelector(".log")) added.querySelector(".log").scrollTop = log;
  if (focused) document.getElementById(focused)?.focus();
}

function schedule(pause) {
  const at = Date.now() + pause;
  if (due?.at <= at) return;
  clearTimeout(due?.timer);
  const begin = () => {
    due = null; // what happens from now on needs another fetch
    running = running.then(refresh).catch(() => {});
  };
  due = { at, timer: setTimeout(begin, pause) };
}

async function read(address) {
  const response = await send(address);
  if (response.status === 401) throw new Refusal("");
  if (!response.ok || response.status === 204) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    seen = [...value.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? seen;
    if (value.includes("data:")) schedule(value.includes("event: progress") ? OF_PROGRESS : OF_STATE);
  }
}

async function stream(address) {
  while (!ended) {
    try {
      await read(address);
    } catch (error) {
      if (error instanceof Refusal) return notify(error);
    }
    schedule(OF_STATE);
    await new Promise((resume) => setTimeout(resume, RECONNECT));
  }
}

export function follow() {
  const { stream: address, refresh: seconds } = document.body.dataset;
  if (address) stream(address);
  if (seconds) setInterval(() => !ended && !document.hidden && schedule(0), seconds * 1000);
}
