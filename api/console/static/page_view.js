// A fetched page in a frame in which nothing runs, loads or leads away. A cover over it takes the clicks.
//
// The page is hostile: its names may hide methods of its document and of its forms, so that methods are called as those
// of the prototypes. The frame has the console's origin, without which its elements could not be reached, and no scripts.
import { texts } from "./texts.js";
const POLICY = "default-src 'none'; style-src 'self'";
const STYLES = "/console/static/page.css";
const TALLEST = 20000;
const MARK = "spindle-mark";

export function createPageView(frame, cover, announce, choose) {
  let elements = new Map(), marked = [], current = null;

  const read = (element, name) => Element.prototype.getAttribute.call(element, name);
  const numberOf = (element) => Number(read(element, "n"));

  function mark(numbers, kind) {
    for (const element of marked.filter((each) => each.kind === kind)) {
      if (read(element.element, MARK) === kind) Element.prototype.removeAttribute.call(element.element, MARK);
    }
    marked = marked.filter((each) => each.kind !== kind);
    for (const number of numbers) {
      const element = elements.get(number);
      if (!element) continue;
      Element.prototype.setAttribute.call(element, MARK, kind);
      marked.push({ element, kind });
    }
  }

  function describe(element) {
    const text = element.textContent;
    const words = typeof text === "string" ? text.trim().replace(/\s+/g, " ").slice(0, 80) : "";
    return `${String(element.nodeName).toLowerCase()}: ${words || texts.page_view.no_text}`;
  }

  function point(element) {
    current = element;
    mark(element ? [numberOf(element)] : [], "over");
  }

  function find(event) {
    const box = frame.getBoundingClientRect();
    const found = Document.prototype.elementFromPoint.call(
      frame.contentDocument, event.clientX - box.left, event.clientY - box.top,
    );
    return found && elements.has(numberOf(found)) ? found : null;
  }

  // Elements with a text of their own are those that a keyboard steps through.
  function step(by) {
    const texts = [...elements.values()].filter((element) =>
      [...element.childNodes].some((each) => each.nodeType === Node.TEXT_NODE && each.data.trim()));
    if (!texts.length) return;
    const place = texts.indexOf(current);
    const next = texts[Math.min(Math.max(place < 0 ? 0 : place + by, 0), texts.length - 1)];
    point(next);
    Element.prototype.scrollIntoView.call(next, { block: "nearest" });
    announce(describe(next));
  }

  cover.addEventListener("mousemove", (event) => point(find(event)));
  cover.addEventListener("mouseleave", () => point(null));
  cover.addEventListener("click", (event) => {
    const element = find(event);
    if (!element) return;
    point(element);
    mark([numberOf(element)], "chosen");
    choose(numberOf(element));
  });
  cover.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (by) {
      event.preventDefault();
      step(by);
    } else if (event.key === "Enter" && current) {
      mark([numberOf(current)], "chosen");
      choose(numberOf(current));
    }
  });

  function show(html) {
    elements = new Map();
    marked = [];
    current = null;
    return new Promise((resolve) => {
      frame.onload = () => {
        const page = frame.contentDocument;
        for (const element of Document.prototype.querySelectorAll.call(page, "[n]")) elements.set(numberOf(element), element);
        frame.style.height = "0";
        const root = elements.get(0) ?? page.firstElementChild;
        frame.style.height = `${Math.min(Math.max(root.scrollHeight, 200), TALLEST)}px`;
        resolve();
      };
      frame.srcdoc = `<!doctype html><meta http-equiv="Content-Security-Policy" content="${POLICY}">` +
        `<link rel="stylesheet" href="${STYLES}">${html}`;
    });
  }

  return { show, mark };
}
