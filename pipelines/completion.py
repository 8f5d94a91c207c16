"""Completion of a pipeline's text at a place, and help for it, from the schemas of the stages and of the other keys.

The text up to the place is read as YAML, with a word of our own in place of the one that is being written, once as a
key and once as a value. So it does not matter whether the text after it is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from pipelines.browser.actions import ACTIONS
from pipelines.errors import PipelineError
from pipelines.extract.extractors import METHODS, Method
from pipelines.language.arguments import Arguments
from pipelines.language.names import normalize
from pipelines.language.nodes import MAX_BYTES, MAX_DEPTH, MappingNode, Node, ScalarNode, SequenceNode, parse
from pipelines.listing import Schema, StageListing
from pipelines.planning.check import CHECKS
from pipelines.planning.model import Options, Output
from pipelines.registry import Entry

MOST_SUGGESTIONS = 100
MOST_VALUES = 8  # that the sentence about an argument lists
_HERE = "spindleIsAskedHere"
_WORD = re.compile(r"[^\s,\[\]{}\"'#]*$")
_REST_OF_WORD = re.compile(r"[^\s,\[\]{}\"'#:]*")
_CLOSERS = {yaml.FlowSequenceStartToken: "]", yaml.FlowMappingStartToken: "}"}
_ENDS = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
_KEYS = {
    "fetch": "The first page: `url`, a list of them, or a `file` with one in each line.",
    "pipeline": "The stages, in order.",
    "spindle": "Options of the run.",
    "output": "Where the rows are written; without it, to the dataset of the job.",
    "checks": "Checks of the rows before they are published.",
}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text for the place, and a sentence about it."""

    text: str
    about: str


@dataclass(frozen=True, slots=True)
class Completion:
    """Suggestions in place of the text from the column `start` on, and help for the place, the outer parts first."""

    start: int
    suggestions: Sequence[Suggestion]
    help: Sequence[Suggestion]


@dataclass(frozen=True, slots=True)
class _Place:
    """A schema that the value at the place may have, with the definitions that it refers to."""

    schema: Schema
    definitions: Schema

    def expand(self) -> Iterator[_Place]:
        """Yield the schemas that this one refers to: a reference and alternatives are replaced."""
        definitions = self.schema.get("$defs", self.definitions)
        if reference := self.schema.get("$ref"):
            yield from _Place(definitions[reference.rpartition("/")[2]], definitions).expand()
        elif alternatives := self.schema.get("anyOf") or self.schema.get("oneOf"):
            for each in alternatives:
                yield from _Place(each, definitions).expand()
        else:
            yield _Place(self.schema, definitions)

    @property
    def properties(self) -> dict[str, Schema]:
        return self.schema.get("properties", {})

    def fits(self, node: MappingNode) -> bool:
        """Return whether the node may be of this schema, by the values that tell alternatives apart."""
        for key, value in node.entries:
            known = self.properties.get(str(key.value), {}).get("enum")
            if known and isinstance(value, ScalarNode) and value.value not in (None, _HERE):
                name, _, argument = str(value.value).partition(":")
                names = {normalize(each) for each in known}
                if not {normalize(str(value.value)), normalize(f"{name}:") if argument else ""} & names:
                    return False
        return True

    def enter(self, part: str | int) -> Iterator[_Place]:
        """Yield the schemas of a value inside: of an argument by its name, or of an item by its position."""
        if isinstance(part, str):
            for name, schema in self.properties.items():
                if normalize(name) == normalize(part):
                    yield _Place(schema, self.definitions)
        elif "items" in self.schema:
            yield _Place(self.schema["items"], self.definitions)
        elif names := self.schema.get("positional"):
            named = _Place(self.properties.get(names[min(part, len(names) - 1)], {}), self.definitions)
            if "rest" not in self.schema:
                yield self  # a map of arguments by name
            for place in named.expand():
                yield place
                if "items" in place.schema:
                    yield _Place(place.schema["items"], place.definitions)


def complete_pipeline(text: str, line: int, column: int, stages: Iterable[StageListing]) -> Completion:
    """Return what may be written at a place of the text; line and column count from 1.

    Nothing is suggested where the text before the place is no YAML, or the place is in quotes.
    """
    lines = text.split("\n")
    current = lines[line - 1] if line <= len(lines) else ""
    before = current[: column - 1]
    word = _get_text(_WORD.search(before))
    head = "\n".join((*lines[: line - 1], before[: len(before) - len(word)]))
    rest = _get_text(_REST_OF_WORD.match(current[column - 1 :]))
    root = _Place(_build_schema(tuple(stages)), {})
    suggestions: dict[str, Suggestion] = {}
    helped: dict[str, Suggestion] = {}
    for written in (f"{_HERE}: ", _HERE):
        if (found := _parse(head, written)) is None:
            continue
        places, owner, above = _walk(root, *found)
        for each in _suggest(places, owner):
            known = suggestions.setdefault(each.text, each)
            if known.about != each.about:  # that depends on a stage, which is not named yet
                suggestions[each.text] = Suggestion(each.text, "")
        for each in (*above, *_explain(places, owner, f"{word}{rest}".rstrip(":"))):
            helped.setdefault(each.text, each)
    ranked = _rank(suggestions.values(), word)
    return Completion(len(before) - len(word) + 1, ranked[:MOST_SUGGESTIONS], list(helped.values()))


def _get_text(match: re.Match[str] | None) -> str:
    return match[0] if match else ""


def _parse(head: str, written: str) -> tuple[Node, Sequence[str | int]] | None:
    """Return the document that ends with the word, and the path of the word; None where that is no YAML."""
    if len(head) > MAX_BYTES:
        return None
    try:
        root = parse(f"{head}{written}{_close(head)}")
    except (PipelineError, yaml.YAMLError, UnicodeEncodeError):  # half a character
        return None
    path = _find(root)
    return None if path is None else (root, path)


def _close(head: str) -> str:
    """Return the brackets that close the lists and maps that are open at the end of the text."""
    opened: list[str] = []
    for token in yaml.scan(head, Loader=yaml.CSafeLoader):
        if closer := _CLOSERS.get(type(token)):
            opened.append(closer)
            if len(opened) > MAX_DEPTH:  # scanning takes the square of the depth, and nothing is suggested there
                return ""
        elif isinstance(token, _ENDS) and opened:
            opened.pop()
    return "".join(reversed(opened))


def _find(node: Node) -> Sequence[str | int] | None:
    if isinstance(node, ScalarNode):
        return () if node.value == _HERE else None
    if isinstance(node, SequenceNode):
        children: list[tuple[str | int, Node]] = list(enumerate(node.items))
    else:
        if any(key.value == _HERE for key, _ in node.entries):
            return (_HERE,)
        children = [(str(key.value), child) for key, child in node.entries]
    for part, child in reversed(children):  # the word is at the end
        if (below := _find(child)) is not None:
            return (part, *below)
    return None


def _walk(
    root: _Place, node: Node, path: Sequence[str | int]
) -> tuple[Sequence[_Place], MappingNode | None, Sequence[Suggestion]]:
    """Return the schemas of the place, the map whose key it is, if it is one, and the help of the stage around it."""
    places: Sequence[_Place] = list(root.expand())
    helped: list[Suggestion] = []
    for part in path:
        if isinstance(node, MappingNode):
            inside = node
            places = [each for each in places if each.fits(inside)]
            if (kind := _get_kind(node)) and (about := _describe_kind(places, kind)):
                helped.append(about)
        if part == _HERE and isinstance(node, MappingNode):
            return places, node, helped
        below = node.get(part) if isinstance(node, MappingNode) and isinstance(part, str) else None
        if isinstance(node, SequenceNode) and isinstance(part, int):
            below = node.items[part]
        places = [found for place in places for inner in place.enter(part) for found in inner.expand()]
        if below is None:
            break
        node = below
    return places, None, helped


def _get_kind(node: MappingNode) -> str:
    """Return the stage, check or action that the map names."""
    kinds = (node.get(name) for name in ("stage", "check", "action"))
    return next((str(each.value) for each in kinds if isinstance(each, ScalarNode) and each.value != _HERE), "")


def _describe_kind(places: Sequence[_Place], kind: str) -> Suggestion | None:
    about = next((text for place in places if (text := place.schema.get("description"))), "")
    return Suggestion(kind, about) if about else None


def _suggest(places: Sequence[_Place], owner: MappingNode | None) -> Iterator[Suggestion]:
    if owner is not None:
        written = {normalize(str(key.value)) for key, _ in owner.entries}
        for place in places:
            for name, schema in place.properties.items():
                if normalize(name) not in written:
                    required = name in place.schema.get("required", ())
                    yield Suggestion(f"{name}: ", _describe_argument(schema, place.definitions, required=required))
        return
    for place in places:
        abouts = place.schema.get("abouts", {})
        for value in (*place.schema.get("enum", ()), *place.schema.get("examples", ())):
            yield Suggestion(str(value), abouts.get(value, ""))
        if "const" in place.schema:
            yield Suggestion(str(place.schema["const"]), "")
        if place.schema.get("type") == "boolean":
            yield from (Suggestion("true", ""), Suggestion("false", ""))


def _explain(places: Sequence[_Place], owner: MappingNode | None, word: str) -> Iterator[Suggestion]:
    """Yield the sentences about the word itself."""
    for each in _suggest(places, owner if owner is None else MappingNode((), owner.line, owner.column)):
        if each.about and normalize(each.text.removesuffix(": ")) == normalize(word):
            yield Suggestion(each.text.removesuffix(": "), each.about)


def _describe_argument(schema: Schema, definitions: Schema, *, required: bool) -> str:
    parts = ["required"] if required else []
    parts += [text for text in (schema.get("description"),) if text]
    values = [value for each in _Place(schema, definitions).expand() for value in each.schema.get("enum", ())]
    if len(values) <= MOST_VALUES and "abouts" not in schema:
        parts += [" or ".join(map(str, values))] if values else []
    default = schema.get("default")
    if default not in (None, "", [], {}):
        parts.append(f"by default {str(default).lower() if isinstance(default, bool) else default}")
    return "; ".join(parts)


def _rank(suggestions: Iterable[Suggestion], word: str) -> Sequence[Suggestion]:
    """Return the suggestions that have the word: first those that begin with it, each group in its own order."""
    wanted = normalize(word)
    having = [each for each in suggestions if wanted in normalize(each.text) and each.text != word]
    return sorted(having, key=lambda each: not normalize(each.text).startswith(wanted))


def _build_schema(stages: tuple[StageListing, ...]) -> Schema:
    """Return the JSON schema of a whole pipeline; `abouts` has sentences about the values of an enumeration."""
    known = {each.name: each.arguments for each in stages}
    abouts = {name: each.description for each in stages for name in (each.name, *each.aliases)}
    wget, visit = known["wget"], known["visit"]
    browsing = {name: visit["properties"][name] for name in ("traces", "images")}
    fetch = wget | {"properties": browsing | wget["properties"], "$defs": visit["$defs"] | wget.get("$defs", {})}
    return {
        "properties": {
            "fetch": _explain_values(fetch) | {"positional": [], "description": _KEYS["fetch"]},
            "pipeline": {
                "type": "array",
                "description": _KEYS["pipeline"],
                "items": {"oneOf": [_build_stage(each, abouts) for each in stages]},
            },
            "spindle": _build_model(Options) | {"description": _KEYS["spindle"]},
            "output": _build_model(Output) | {"description": _KEYS["output"]},
            "checks": {
                "type": "array",
                "description": _KEYS["checks"],
                "items": {"oneOf": [_build_check(each.name, each.doc, each.thing) for each in CHECKS]},
            },
        }
    }


def _build_stage(listing: StageListing, abouts: dict[str, str]) -> Schema:
    names = [listing.name, *listing.aliases]
    order = ", ".join(listing.arguments.get("positional", ()))
    args = _explain_values(listing.arguments) | {"description": f"in this order, or by name: {order}" if order else ""}
    stage = {"enum": names, "abouts": {name: abouts[name] for name in names}, "description": "name of the stage"}
    return {"properties": {"stage": stage, "args": args}, "required": ["stage"], "description": listing.description}


def _build_check(name: str, doc: str, model: type[Arguments]) -> Schema:
    schema = _build_model(model)
    about = " ".join(doc.partition("\n\n")[0].split())
    check = {"enum": [name], "abouts": {name: about}, "description": "name of the check"}
    return schema | {"properties": {"check": check, **schema["properties"]}, "description": about}


@cache
def _build_model(model: type[Arguments]) -> Schema:
    return model.model_json_schema(by_alias=True)


def _explain_values(arguments: Schema) -> Schema:
    """Return the schema with sentences about the methods of extractors and the actions of traces."""
    definitions: dict[str, Any] = dict(arguments.get("$defs", {}))
    if "Extractor" in definitions:
        abouts = {name: _describe_method(each) for each in METHODS for name in each.spellings}
        properties = definitions["Extractor"]["properties"]
        method = properties["method"] | {"abouts": abouts}
        definitions["Extractor"] = definitions["Extractor"] | {"properties": properties | {"method": method}}
    if "Action" in definitions:
        abouts = {name: each.doc.partition("\n\n")[0] for each in ACTIONS for name in each.spellings}
        definitions["Action"] = {"oneOf": [_explain_action(each, abouts) for each in definitions["Action"]["oneOf"]]}
    return arguments | {"$defs": definitions}


def _describe_method(entry: Entry[Method]) -> str:
    takes = entry.thing.takes
    return f"{entry.thing.about}: {entry.name}:{takes}" if takes else entry.thing.about


def _explain_action(schema: Schema, abouts: dict[str, str]) -> Schema:
    names = schema["properties"]["action"]["enum"]
    action = {"enum": names, "abouts": {name: abouts[name] for name in names}}
    return schema | {"properties": schema["properties"] | {"action": action}, "description": abouts[names[0]]}
