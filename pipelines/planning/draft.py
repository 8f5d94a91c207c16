"""The text of a pipeline that a person changes selector by selector, with everything else as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, cast

import yaml

from pipelines.planning.stage import find_stage
from pipelines.registry import UnknownName

_KEYS = ("selector", "xpath")  # of an extractor, and of a stage whose arguments are a map


@dataclass(frozen=True, slots=True)
class DraftSelector:
    """A selector of the text, between the offsets `start` and `end`; `key` says whether it is an XPath."""

    stage: str
    key: str
    line: int
    text: str
    start: int
    end: int


def write_draft(url: str, selectors: Sequence[str]) -> str:
    """Return the text of a pipeline that fetches one page and extracts a column for every selector.

    A selector may also be a whole extractor, as the text of a map.
    """
    lines: list[str] = []
    names = set[str]()
    for selector in selectors:
        extractor = _read_extractor(selector)
        name = _derive_name(str(extractor.get("selector") or extractor.get("xpath") or ""), names)
        names.add(name)
        fields = {"as": name} | extractor
        lines.append(", ".join(f"{key}: {_quote(value)}" for key, value in sorted(fields.items(), key=_is_name)))
    if not lines:
        return f"fetch:\n  url: {_quote(url)}\npipeline: []\nspindle: {{keepColumns: [_url]}}\n"
    extractors = "".join(f"      - {{{line}}}\n" for line in lines)
    return f"fetch:\n  url: {_quote(url)}\npipeline:\n  - stage: extract\n    args:\n{extractors}"


def find_selectors(text: str) -> list[DraftSelector]:
    """Return the selectors of a valid pipeline in the order of the text."""
    root = yaml.compose(text, yaml.SafeLoader)
    return [
        DraftSelector(stage, key, node.start_mark.line + 1, node.value, node.start_mark.index, node.end_mark.index)
        for item in _get_items(_get_value(root, "pipeline"))
        for stage, key, node in _iter_selectors(item)
        if isinstance(node, yaml.ScalarNode)
    ]


def list_segments(text: str, replaced: DraftSelector | None) -> Sequence[str] | None:
    """Return the selectors of the segments that are the rows of a column that is added, or of that of `replaced`.

    They are empty where rows are pages, and None for a selector by which a stage finds its rows or links.
    """
    items = _get_items(_get_value(yaml.compose(text, yaml.SafeLoader), "pipeline"))
    if replaced:
        last = sum(item.start_mark.index <= replaced.start for item in items)
    else:
        last = max((number for number, item in enumerate(items, 1) if _is_extract(item)), default=len(items))
    segments: list[str] = []
    for item in items[:last]:
        name = _get_value(item, "stage")
        try:
            known, stage = find_stage(name.value if isinstance(name, yaml.ScalarNode) else "")
        except UnknownName:
            continue
        own = next((node for _, _, node in _iter_selectors(item) if isinstance(node, yaml.ScalarNode)), None)
        if "selector" in stage.positional and own and replaced and own.start_mark.index == replaced.start:
            return None
        if stage.gives_page:
            segments = []
        elif known == "flatSelect" and own:
            segments.append(own.value)
    return segments


def replace_selector(text: str, selector: DraftSelector, new: str) -> str:
    return text[: selector.start] + _quote(new) + text[selector.end :]


def add_selector(text: str, selector: str) -> str:
    """Return the text with a column for a selector: in its last extract, or in one that is added at the end."""
    names = set(re.findall(r"\bas: *[\"']?([\w-]+)", text))
    line = f"{{selector: {_quote(selector)}, method: text, as: {_derive_name(selector, names)}}}"
    stages = _get_value(yaml.compose(text, yaml.SafeLoader), "pipeline")
    extracts = (_get_value(item, "args") for item in reversed(_get_items(stages)) if _is_extract(item))
    if (extractors := next(extracts, None)) is not None and _get_items(extractors):
        return _add_item(text, extractors, line)
    if not isinstance(stages, yaml.SequenceNode):
        return f"{text.rstrip()}\npipeline:\n  - stage: extract\n    args:\n      - {line}\n"
    if stages.flow_style and not stages.value:
        before, after = text[: stages.start_mark.index].rstrip(), text[stages.end_mark.index :]
        return f"{before}\n  - stage: extract\n    args:\n      - {line}{after}"
    return _add_item(text, stages, f"{{stage: extract, args: [{line}]}}")


def _add_item(text: str, items: yaml.SequenceNode, line: str) -> str:
    """Return the text with an item at the end of a list that is not empty, written as the list is."""
    if items.flow_style:
        end = items.end_mark.index - 1
        return f"{text[:end].rstrip().rstrip(',')}, {line}{text[end:]}"
    written = len(text[: items.value[-1].end_mark.index].rstrip())
    end = text.find("\n", written)  # behind a comment
    end = len(text) if end < 0 else end
    return f"{text[:end]}\n{' ' * items.start_mark.column}- {line}{text[end:]}"


def _is_extract(item: Any) -> bool:
    name = _get_value(item, "stage")
    return isinstance(name, yaml.ScalarNode) and name.value == "extract"


def _iter_selectors(item: Any) -> Iterator[tuple[str, str, Any]]:
    name, arguments = _get_value(item, "stage"), _get_value(item, "args")
    if name is None or arguments is None:
        return
    try:
        stage = find_stage(name.value)[1]
    except UnknownName:
        return
    nodes = _get_items(arguments) or [arguments]
    if "selector" in stage.positional and len(nodes) > (position := stage.positional.index("selector")):
        yield name.value, "selector", nodes[position]
    yield from ((name.value, key, node) for key, node in _find_keyed(arguments))


def _find_keyed(node: Any) -> Iterator[tuple[str, Any]]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value in _KEYS:
            yield key.value, value
        else:
            yield from _find_keyed(value)
    for item in _get_items(node):
        yield from _find_keyed(item)


def _get_value(node: Any, name: str) -> Any:
    entries = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in entries if key.value == name), None)


def _get_items(node: Any) -> list[Any]:
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _read_extractor(selector: str) -> dict[str, Any]:
    """Return the extractor that a text describes: a map, or just a selector."""
    try:
        value = yaml.safe_load(selector) if selector.startswith("{") else None
    except yaml.YAMLError:
        value = None
    if isinstance(value, dict):
        return cast(dict[str, Any], value)
    return {"xpath" if selector.startswith(("/", "(/")) else "selector": selector}


def _derive_name(selector: str, taken: Collection[str]) -> str:
    """Return a column name from the last word of a selector, numbered when it is taken."""
    words = re.findall(r"[A-Za-z]\w*", re.sub(r"\[.*?\]|:[\w-]+(\(.*?\))?", "", selector)) or ["column"]
    return next(name for name in chain(words[-1:], (f"{words[-1]}_{n}" for n in count(2))) if name not in taken)


def _is_name(entry: tuple[str, Any]) -> bool:
    return entry[0] == "as"


def _quote(value: Any) -> str:
    """Return a value as YAML, in quotes where it needs them."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    try:
        plain = yaml.safe_load(f"[{value}]") == [value]
    except yaml.YAMLError:
        plain = False
    return value if plain else json.dumps(value, ensure_ascii=False)
