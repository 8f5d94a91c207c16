// A list of suggestions under a box of text: arrows choose, Enter or Tab accepts, Esc closes, Ctrl+Space asks.
// The box stays focused: `aria-activedescendant` tells a screen reader the chosen one, and `count` how many there are.
import { fill, texts } from "./texts.js";
const PAUSE = 120;

// `ask(box)` returns { start, options: [{ text, about }] }, or null; `place(list, start)` moves the list to the word.
export function attachCompletion(box, list, count, ask, place = () => {}) {
  let options = [], active = -1, start = 0, turn = 0, timer = null;

  function close() {
    turn++;
    clearTimeout(timer);
    list.hidden = true;
    options = [];
    active = -1;
    count.textContent = "";
    box.removeAttribute("aria-activedescendant");
  }

  function accept(number) {
    const { text } = options[number];
    box.setRangeText(text, start, box.selectionEnd, "end");
    close();
    box.focus();
    box.dispatchEvent(new InputEvent("input", { data: text.endsWith(" ") ? text : null }));
  }

  function activate(number) {
    active = (number + options.length) % options.length;
    [...list.children].forEach((item, each) => item.setAttribute("aria-selected", String(each === active)));
    list.children[active].scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", list.children[active].id);
  }

  function build({ text, about }, number) {
    const item = document.createElement("li");
    item.id = `suggestion-${number}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    const word = document.createElement("code");
    word.textContent = text;
    item.append(word);
    if (about) {
      const words = document.createElement("small");
      words.textContent = ` ${about}`;
      item.append(words);
    }
    item.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the box stays focused
      accept(number);
    });
    return item;
  }

  async function suggest(wanted) {
    const mine = ++turn;
    clearTimeout(timer);
    const found = await ask(box, wanted);
    if (mine !== turn) return;
    if (!found?.options.length || document.activeElement !== box) return close();
    ({ start, options } = found);
    active = -1;
    list.replaceChildren(...options.map(build));
    list.scrollTop = 0;
    list.hidden = false;
    place(list, start);
    count.textContent = options.length > 1 ? fill(texts.completion.suggestions, { count: options.length }) : texts.completion.one_suggestion;
    if (wanted) activate(0);
  }

  // An event without data is a paste, an undo or an accepted value: nobody is in the middle of a word.
  box.addEventListener("input", (event) => {
    close();
    if (event.data) timer = setTimeout(suggest, PAUSE, false);
  });
  box.addEventListener("blur", close);
  box.addEventListener("click", close);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === " " && event.ctrlKey) suggest(true);
    else if (list.hidden) {
      if (step || event.key.startsWith("Arrow")) close(); // an answer that comes now is for another place
      return;
    } else if (step) activate(active < 0 && step < 0 ? options.length - 1 : active + step);
    else if (event.key === "Escape") close();
    else if ((event.key === "Enter" || event.key === "Tab") && active >= 0) accept(active);
    else {
      if (event.key.startsWith("Arrow") || event.key === "Enter") close();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
}
