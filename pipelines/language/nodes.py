"""YAML parser: turns text into nodes with line and column, for the part of YAML 1.2 that pipelines need.

Anchors, aliases, tags and duplicate keys are errors; `yes`, `no`, `on` and `off` are strings.
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
# the usual cause of a libyaml message, by the first part of it that matches; {line} is where the element begins
_ADVICE = {
    "scanning an a": "a value that begins with * or & must be in quotes",  # an alias, an anchor
    "flow node": "a value is missing before it; one that begins with # must be in quotes",
    "flow": "the [ or {{ of line {line} is not closed, or a value in it with ': ', #, a comma or bracket needs quotes",
    "mapping values": "a value with ': ' in it must be in quotes",
    "unknown escape": "\\ begins an escape in double quotes; use single quotes for a literal backslash",
    "quoted scalar": "the quote in line {line} is not closed",
    "tab character": "YAML is indented with spaces",
    "block scalar": "a value that begins with > or | must be in quotes",
    "mapping keys": "a value that begins with ? must be in quotes",
    "block sequence entries": "a list must begin on a new line; a value that begins with - must be in quotes",
    "block": "the lines of the list or map from line {line} on must be indented alike",
}

_ESCAPED_QUOTES = {"'": "''", '"': '\\"'}


@dataclass(frozen=True, slots=True)
class ScalarNode:
    value: str | int | float | bool | None
    line: int
    column: int

    def to_plain(self) -> Plain:
        return self.value


@dataclass(frozen=True, slots=True)
class SequenceNode:
    items: tuple[Node, ...]
    line: int
    column: int

    def to_plain(self) -> Plain:
        return [item.to_plain() for item in self.items]


@dataclass(frozen=True, slots=True)
class MappingNode:
    entries: tuple[tuple[ScalarNode, Node], ...]
    line: int
    column: int

    def get(self, name: str) -> Node | None:
        return next((node for key, node in self.entries if key.value == name), None)

    def to_plain(self) -> Plain:
        return {str(key.value): node.to_plain() for key, node in self.entries}


Node = ScalarNode | SequenceNode | MappingNode


def locate_problem(node: Node, code: str, message: str, path: str = "", may_come: bool = False) -> Problem:
    """Return a problem with the node's line and column."""
    return Problem(path, message, node.line or None, node.column or None, code, may_come)


def to_node(value: Plain) -> Node:
    """Build a tree from Python values; its nodes have no lines."""
    if isinstance(value, dict):
        return MappingNode(tuple((ScalarNode(key, 0, 0), to_node(each)) for key, each in value.items()), 0, 0)
    if isinstance(value, list):
        return SequenceNode(tuple(to_node(each) for each in value), 0, 0)
    return ScalarNode(value, 0, 0)


def iter_scalars(node: Node) -> Iterator[ScalarNode]:
    """Iterate over the values below `node` in the order of the text, without keys."""
    if isinstance(node, ScalarNode):
        yield node
    for child in list_children(node):
        yield from iter_scalars(child)


def list_children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below `node`."""
    if isinstance(node, MappingNode):
        return tuple(child for _, child in node.entries)
    return node.items if isinstance(node, SequenceNode) else ()


def parse(text: str) -> Node:
    """Parse a text of one YAML document; raises PipelineError with a located problem."""
    _check_text(text)
    try:
        # the C parser: the Python one takes seconds for a text of the maximum size
        return _build(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {error.problem or error.context or 'the text ends too early'}"
        raise _error("invalid-yaml", "; ".join([message, *_advise(error, text)]), mark) from None
    except yaml.YAMLError:
        raise PipelineError([Problem("", "not valid YAML", 1, 1, "invalid-yaml")]) from None


def write_yaml(value: Plain) -> str:
    """Return the text whose values `parse` reads as these."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000)


class _Dumper(yaml.SafeDumper):
    """A dumper that knows which texts need quotes here, and writes those of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _resolve_plain(text) != text else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _check_text(text: str) -> None:
    if bad := _UNPRINTABLE.search(text.removeprefix("\ufeff")):
        before = text[: bad.start()]
        line, column = before.count("\n") + 1, bad.start() - before.rfind("\n")
        message = f"the character U+{ord(bad.group()):04X} is not allowed in YAML"
        raise PipelineError([Problem("", message, line, column, "invalid-character")])
    if len(text.encode()) > MAX_BYTES:
        message = f"a pipeline may have at most {MAX_BYTES // 1024} KiB"
        raise PipelineError([Problem("", message, 1, 1, "too-large")])


def _advise(error: yaml.MarkedYAMLError, text: str) -> Iterator[str]:
    """Suggest a correction for a libyaml error, if its usual cause is known."""
    said, begin, place = f"{error.context} {error.problem}", error.context_mark, error.problem_mark
    if place is not None and (advice := _advise_at(place, said, text.removeprefix("\ufeff"))):
        yield advice
    elif advice := next((advice for part, advice in _ADVICE.items() if part in said), None):
        yield advice.format(line=begin.line + 1 if begin else 1)


def _advise_at(place: Any, said: str, text: str) -> str | None:
    """Suggest a correction from the characters around `place`."""
    found = text[place.index : place.index + 1]
    before = text[place.index - place.column : place.index]
    if "cannot start any token" in said and found == "\t":
        return "this is a tab; YAML is indented with spaces"
    if "cannot start any token" in said or ("block" in said and "expected node content" in said):
        return f"a value that begins with {found} must be in quotes"
    if "flow" in said and (not found or found in " ]}"):
        return None
    quote = before.rstrip(" ")[-1:] if "block" in said else before[-1:]
    if "did not find expected" in said and quote in _ESCAPED_QUOTES:
        again = f"write a {quote} within it as {_ESCAPED_QUOTES[quote]}"
        return f"the value ends with the {quote} before this; put all of it in other quotes, or {again}"
    if "did not find expected" in said and "block" in said and "scalar" not in said and before.strip():
        return "the value ends before this; all of it must be in quotes"
    return None


def _error(code: str, message: str, mark: Any) -> PipelineError:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return PipelineError([Problem("", message, line, column, code)])


class _OpenCollection:
    """A list or map whose end has not been parsed yet; `key` is the key of the next value."""

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
            raise PipelineError([locate_problem(node, "invalid-key", "a key must be a plain name")])
        name = str(node.value)
        if name in self.keys:
            first = self.keys[name].line
            message = f"the key '{name}' occurs twice (first in line {first})"
            raise PipelineError([locate_problem(node, "duplicate-key", message)])
        self.keys[name] = self.key = ScalarNode(name, node.line, node.column)

    def close(self) -> Node:
        if self.is_map:
            return MappingNode(tuple(zip(self.keys.values(), self.items, strict=True)), self.line, self.column)
        return SequenceNode(tuple(self.items), self.line, self.column)


def _build(events: Iterable[Any]) -> Node:
    stack: list[_OpenCollection] = []
    root: Node | None = None
    for event in events:
        _check_event(event, len(stack), root)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(_OpenCollection(event))
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            node = stack.pop().close()
        elif isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0]
            value = _resolve_plain(event.value) if plain else event.value
            node = ScalarNode(value, event.start_mark.line + 1, event.start_mark.column + 1)
        else:
            continue
        if stack:
            stack[-1].add(node)
        else:
            root = node
    if root is None:
        raise PipelineError([Problem("", "the pipeline is empty", 1, 1, "empty-pipeline")])
    return root


def _check_event(event: Any, depth: int, root: Node | None) -> None:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        message = "anchors and aliases are not allowed; a value that begins with & or * must be in quotes"
        raise _error("unsupported-yaml", message, event.start_mark)
    if getattr(event, "tag", None) not in (None, "!", "tag:yaml.org,2002:str"):
        raise _error("unsupported-yaml", "tags are not allowed", event.start_mark)
    if depth >= MAX_DEPTH and isinstance(event, yaml.CollectionStartEvent):
        raise _error("too-deep", f"nested more than {MAX_DEPTH} deep", event.start_mark)
    if isinstance(event, yaml.DocumentStartEvent) and root is not None:
        raise _error("unsupported-yaml", "only one document is allowed", event.start_mark)


def _resolve_plain(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) < 20 and _INTEGER.fullmatch(text):  # longer ones are ids, not numbers
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if len(text) < 40 and _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(inf|nan)", r"\1", text.casefold()))
    return text
