"""YAML text → located nodes: the part of YAML 1.2 that a pipeline needs, with line and column of everything.

Anchors, aliases, tags and duplicate keys are refused; `yes`, `no`, `on` and `off` are strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from pipelines.errors import PipelineError, Problem

MAX_BYTES = 256 * 1024
MAX_DEPTH = 50

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]

# characters that YAML 1.2 allows in a stream (section 5.1), negated
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# the core schema of YAML 1.2 (section 10.3.2)
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# what people have mostly written where libyaml says this, the first that fits; {line} is where the thing begins
_ADVICE = {
    "scanning an a": "a value that begins with * or & must be in quotes",  # an alias, an anchor
    "flow node": "a value is missing before it; one that begins with # must be in quotes",
    "flow": "the [ or {{ of line {line} is not closed, or a value in it with ': ', #, a comma or bracket needs quotes",
    "mapping values": "a value with ': ' in it must be in quotes",
    "unknown escape": "in double quotes \\ begins an escape, in single quotes it stands for itself",
    "quoted scalar": "the quote in line {line} is not closed",
    "tab character": "YAML is indented with spaces",
    "block scalar": "a value that begins with > or | must be in quotes",
    "mapping keys": "a value that begins with ? must be in quotes",
    "block sequence entries": "a list begins in a line of its own; a value that begins with - must be in quotes",
    "block": "the lines of the list or map from line {line} on must be indented alike",
}

_WITHIN = {"'": "''", '"': '\\"'}  # how a quote is written within such quotes


@dataclass(frozen=True, slots=True)
class ScalarNode:
    value: str | int | float | bool | None
    line: int
    column: int

    def plain(self) -> Plain:
        return self.value


@dataclass(frozen=True, slots=True)
class SequenceNode:
    items: tuple[Node, ...]
    line: int
    column: int

    def plain(self) -> Plain:
        return [item.plain() for item in self.items]


@dataclass(frozen=True, slots=True)
class MappingNode:
    entries: tuple[tuple[ScalarNode, Node], ...]
    line: int
    column: int

    def get(self, name: str) -> Node | None:
        return next((node for key, node in self.entries if key.value == name), None)

    def plain(self) -> Plain:
        return {str(key.value): node.plain() for key, node in self.entries}


Node = ScalarNode | SequenceNode | MappingNode


def locate_problem(node: Node, message: str, path: str = "") -> Problem:
    return Problem(message, node.line or None, node.column or None, path)


def to_node(value: Plain) -> Node:
    """A tree of values that no text was read for: it has no lines."""
    if isinstance(value, dict):
        return MappingNode(tuple((ScalarNode(key, 0, 0), to_node(each)) for key, each in value.items()), 0, 0)
    if isinstance(value, list):
        return SequenceNode(tuple(to_node(each) for each in value), 0, 0)
    return ScalarNode(value, 0, 0)


def iter_scalars(node: Node) -> Iterator[ScalarNode]:
    """All values below `node`, in order of the text; keys are not values."""
    if isinstance(node, ScalarNode):
        yield node
    for child in list_children(node):
        yield from iter_scalars(child)


def list_children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below `node`."""
    if isinstance(node, MappingNode):
        return tuple(child for _, child in node.entries)
    return node.items if isinstance(node, SequenceNode) else ()


def parse(text: str) -> Node:
    """The one document in `text`; raises PipelineError with a located problem for everything else."""
    _check_text(text)
    try:
        # the C parser: pure Python takes seconds for the largest text that is allowed
        return _build(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {error.problem or error.context or 'the text ends too early'}"
        raise _error("; ".join([message, *_advice(error, text)]), mark) from None
    except yaml.YAMLError:
        raise PipelineError([Problem("not valid YAML", 1, 1)]) from None


def _check_text(text: str) -> None:
    if bad := _UNPRINTABLE.search(text.removeprefix("\ufeff")):
        before = text[: bad.start()]
        line, column = before.count("\n") + 1, bad.start() - before.rfind("\n")
        raise PipelineError([Problem(f"the character U+{ord(bad.group()):04X} is not allowed in YAML", line, column)])
    if len(text.encode()) > MAX_BYTES:
        raise PipelineError([Problem(f"a pipeline may have at most {MAX_BYTES // 1024} KiB", 1, 1)])


def _advice(error: yaml.MarkedYAMLError, text: str) -> Iterator[str]:
    """What to do about what libyaml does not understand, where that is known."""
    said, begin, place = f"{error.context} {error.problem}", error.context_mark, error.problem_mark
    if place is not None and (advice := _advice_at(place, said, text.removeprefix("\ufeff"))):
        yield advice
    elif advice := next((advice for part, advice in _ADVICE.items() if part in said), None):
        yield advice.format(line=begin.line + 1 if begin else 1)


def _advice_at(place: Any, said: str, text: str) -> str | None:
    """What to do, where the characters around `place` tell that."""
    found = text[place.index : place.index + 1]
    before = text[place.index - place.column : place.index]
    if "cannot start any token" in said and found == "\t":
        return "a tab stands here, and YAML is indented with spaces"
    if "cannot start any token" in said or ("block" in said and "expected node content" in said):
        return f"a value that begins with {found} must be in quotes"
    if "flow" in said and (not found or found in " ]}"):
        return None
    quote = before.rstrip(" ")[-1:] if "block" in said else before[-1:]
    if "did not find expected" in said and quote in _WITHIN:
        again = f"write a {quote} within it as {_WITHIN[quote]}"
        return f"the value ends with the {quote} before this; put all of it in other quotes, or {again}"
    if "did not find expected" in said and "block" in said and "scalar" not in said and before.strip():
        return "the value ends before this; all of it must be in quotes"
    return None


def _error(message: str, mark: Any) -> PipelineError:
    return PipelineError([Problem(message, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)])


class _Open:
    """A list or map whose end has not been read yet; `key` waits for its value."""

    def __init__(self, event: Any) -> None:
        self.is_map = isinstance(event, yaml.MappingStartEvent)
        self.line, self.column = event.start_mark.line + 1, event.start_mark.column + 1
        self.items: list[Node] = []
        self.keys: dict[str, ScalarNode] = {}
        self.key: ScalarNode | None = None

    def add(self, node: Node) -> None:
        if not self.is_map or self.key is not None:
            self.items.append(node)
            self.key = None
            return
        if not isinstance(node, ScalarNode):
            raise PipelineError([locate_problem(node, "a key must be a plain name")])
        name = str(node.value)
        if name in self.keys:
            first = self.keys[name].line
            raise PipelineError([locate_problem(node, f"the key '{name}' stands twice (first in line {first})")])
        self.keys[name] = self.key = ScalarNode(name, node.line, node.column)

    def close(self) -> Node:
        if self.is_map:
            return MappingNode(tuple(zip(self.keys.values(), self.items, strict=True)), self.line, self.column)
        return SequenceNode(tuple(self.items), self.line, self.column)


def _build(events: Iterable[Any]) -> Node:
    stack: list[_Open] = []
    root: Node | None = None
    for event in events:
        _refuse(event, len(stack), root)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(event))
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            node = stack.pop().close()
        elif isinstance(event, yaml.ScalarEvent):
            node = _scalar(event)
        else:
            continue
        if stack:
            stack[-1].add(node)
        else:
            root = node
    if root is None:
        raise PipelineError([Problem("the pipeline is empty", 1, 1)])
    return root


def _refuse(event: Any, depth: int, root: Node | None) -> None:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        message = "anchors and aliases are not allowed; a value that begins with & or * must be in quotes"
        raise _error(message, event.start_mark)
    if getattr(event, "tag", None) not in (None, "!", "tag:yaml.org,2002:str"):
        raise _error("tags are not allowed", event.start_mark)
    if depth >= MAX_DEPTH and isinstance(event, yaml.CollectionStartEvent):
        raise _error(f"nested more than {MAX_DEPTH} deep", event.start_mark)
    if isinstance(event, yaml.DocumentStartEvent) and root is not None:
        raise _error("only one document is allowed", event.start_mark)


def _scalar(event: Any) -> ScalarNode:
    plain = event.implicit[0]
    value = _resolve(event.value) if plain else event.value
    return ScalarNode(value, event.start_mark.line + 1, event.start_mark.column + 1)


def _resolve(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) < 20 and _INTEGER.fullmatch(text):  # longer ones (EANs with zeros, ids) are no numbers to compute with
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if len(text) < 40 and _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(inf|nan)", r"\1", text.casefold()))
    return text
