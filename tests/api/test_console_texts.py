"""The texts of the console are in one place: templates and scripts name them, and have no words of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import nodes

import api.console
from api.console.rendering import environment
from api.console.texts import load_texts

ROOM = Path(api.console.__file__).parent
TEMPLATES = sorted(ROOM.glob("templates/*.html"))
SCRIPTS = sorted(ROOM.glob("static/*.js"))
SHOWN = ("alt", "aria-description", "aria-label", "data-confirm", "placeholder", "title")
OF_CODE = ("code", "pre", "script", "style", "textarea")
WORDS = re.compile(r"[A-Z][a-z]|[A-Za-z',.:] [A-Za-z]|[a-z…] ?…")  # a sentence, or a title
CODE = re.compile(r"https?://\S+|/\S*|%[\w:% -]+")  # an address, a path, or the format of a time
PATH = re.compile(r"/\S*")
ATTRIBUTES_OF_BODY = re.compile(r'\s*data-(?:refresh|stream)="[^"]*"')  # that pages give to that of the layout
JSON_NAMES = re.compile(r"[a-z]+(?:[A-Z][a-z]*)+")
LITERAL = re.compile(r"""//[^\n]*|/\*.*?\*/|"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`""", re.S)
PATTERN = re.compile(r"(?<=[(=,:?&|!] )/(?![/*])[^\n]+?/[a-z]*(?=[,).;])|(?<=[(!])/(?![/*])[^\n]+?/[a-z]*(?=[,).])")
VALUE = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
MARKUP = re.compile(r"<[^<>]*>")
SHOWN_LITERAL = re.compile(r'(?:textContent = |append\(|replaceChildren\()"(\w[^"]*)"')
KNOWN_CODE = {
    "default-src 'none'; style-src 'self'",
    "X-Spindle-Console",
    "X-Spindle-Event",
    "Content-Type",
    "If-Match",
    "ETag",
    "event: progress",
}
KEYS = {"Enter", "Escape", "Tab", "Control", "ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Arrow"}


class Reader(HTMLParser):
    """The words between tags, outside of code, and in the attributes that people read."""

    def __init__(self) -> None:
        super().__init__()
        self.found = list[str]()
        self._open = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open += [tag] if tag in OF_CODE else []
        self._add(*(value for name, value in attrs if name in SHOWN and value))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._open:
            self._add(data)

    def _add(self, *texts: str) -> None:
        self.found += [text.strip() for text in texts if re.search("[A-Za-z]", text)]


def list_words(source: str) -> list[str]:
    """Return the words that a template shows itself: in its markup, and as literals of its expressions."""
    reader = Reader()
    markup, kept, in_tag, dropping = "", "", False, False
    for _, kind, value in environment.lex(source):
        if kind == "data":
            markup += value
            in_tag = markup.rfind("<") > markup.rfind(">")
        dropping = in_tag if kind == "variable_begin" else dropping
        kept += "" if dropping else value
        dropping = dropping and kind != "variable_end"
    reader.feed(ATTRIBUTES_OF_BODY.sub("", markup))
    reader.close()
    lines = [line.strip() for each in reader.found for line in each.split("\n")]
    found = [line for line in lines if re.search("[A-Za-z]", line) and not PATH.fullmatch(line)]
    literals = [each.value for each in environment.parse(source).find_all(nodes.Const) if isinstance(each.value, str)]
    found += [each for each in literals if WORDS.search(CODE.sub("", each)) and not JSON_NAMES.fullmatch(each)]
    outputs = environment.parse(kept).find_all(nodes.Output)
    shown = [each for output in outputs for one in output.nodes for each in list_shown(one)]
    return found + [each for each in shown if each not in found]


def list_shown(node: nodes.Node) -> Iterator[str]:
    """Yield the literals that an expression may give as its value."""
    if isinstance(node, nodes.Const) and isinstance(node.value, str) and re.search("[a-z]", CODE.sub("", node.value)):
        yield node.value
    elif isinstance(node, nodes.CondExpr | nodes.Or | nodes.Concat):
        for each in node.iter_child_nodes(exclude=("test",)):
            yield from list_shown(each)
    elif isinstance(node, nodes.Filter) and node.node is not None:
        yield from list_shown(node.node)


def list_literals(script: str) -> list[str]:
    """Return the literals of a script that have words; comments, patterns and keys of a keyboard are none."""
    code = PATTERN.sub("", script)
    found = ["".join(filter(None, each.groups())) for each in LITERAL.finditer(code)]
    texts = [MARKUP.sub("", VALUE.sub("", each)) for each in found]
    words = [each for each in texts if WORDS.search(CODE.sub("", each)) and each not in {*KNOWN_CODE, *KEYS}]
    words += [each for each in SHOWN_LITERAL.findall(code) if each not in words]
    return words + [each for text in found for value in VALUE.findall(text) for each in list_literals(value[2:-1])]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_have_no_words_of_their_own(path: Path) -> None:
    assert list_words(path.read_text()) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_have_no_words_of_their_own(path: Path) -> None:
    assert list_literals(path.read_text()) == []


def test_each_text_is_used_and_each_used_one_is_there() -> None:
    pages, scripts = load_texts()
    for texts, name, files in (
        (pages, r"\b(?:text|TEXT)\.(\w+)\.(\w+)", [*TEMPLATES, *ROOM.glob("*.py")]),
        (scripts, r"\btexts\.(\w+)\.(\w+)", SCRIPTS),
    ):
        used = {each for path in files for each in re.findall(name, path.read_text())}
        assert used - {("PAGE", "NAME")} == {(page, each) for page, known in texts.items() for each in known}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("<p>Hello</p>", ["Hello"]),
        ("<p>{{ text.a.b }} rows</p>", ["rows"]),
        ('<input placeholder="a name"><a title="{{ x }} of them">{{ x }}</a>', ["a name", "of them"]),
        ('<p{% if x %} class="a"{% endif %}>{{ "off" if x else text.a.b }}</p>', ["off"]),
        ('{% set title = "New rule" %}{{ parts.field("name", "Name") }}', ["New rule", "Name"]),
        (
            '<code>etl:write</code><a href="/console/{{ id }}">{{ text.a.b }}</a>{% if x == "COMPLETED" %}{% endif %}',
            [],
        ),
    ],
)
def test_words_of_a_template_are_found(source: str, words: list[str]) -> None:
    assert list_words(source) == words


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('node.textContent = "Saved.";', ["Saved."]),
        ("item.append(` finds ${count} of them`);", [" finds  of them"]),
        ('item.append(`${name}: ${words || "no text"}`, "nothing");', ["no text"]),
        ('item.append("nothing");', ["nothing"]),
        ('// It is "Not shown"\nlist.querySelector("form[data-form]"); call("GET", `/agents/${id}`);', []),
        ('text.split(/[, ]+ a/); if (event.key === "Enter") open("./x.js");', []),
    ],
)
def test_words_of_a_script_are_found(script: str, words: list[str]) -> None:
    assert list_literals(script) == words
