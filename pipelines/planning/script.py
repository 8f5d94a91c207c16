"""Python scripts for pipelines: a script uses the public API and returns the same rows."""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, count
from typing import Any, cast

from pipelines.errors import PipelineError
from pipelines.language import nodes as document
from pipelines.language.names import normalize
from pipelines.language.nodes import MappingNode, Node, Plain, ScalarNode, SequenceNode
from pipelines.language.parameters import find_parameters, find_required_parameters
from pipelines.planning.reader import select_engine_keys
from pipelines.planning.stage import find_stage
from pipelines.registry import UnknownName

_WIDTH = 110
_LONGEST_KEPT = 16 * 1024  # characters: limits the memory of the cache to some tens of MiB
_HEAD = """{how}

{imports}from spindle import Pipeline, stage
from spindle.spark import start_session
"""
_TAIL = '''

def rows(spark, context=None):
    """Return the pipeline's rows as a DataFrame; without a context, only public addresses are fetched."""
    return pipeline.run(spark{given})


if __name__ == "__main__":
    rows(start_session()).show(truncate=False)
'''


def stage(name: str, /, *arguments: Plain, **named: Plain) -> dict[str, Plain]:
    """Return a stage for `Pipeline.of`, with arguments in order, by name, or first in order and then by name."""
    if not arguments:
        return {"stage": name, "args": named}
    return {"stage": name, "args": [*arguments, *([named] if named else [])]}


def make_script(text: str, transforms: Mapping[str, str] | None = None) -> str | None:
    """Return the script for a pipeline's text with its row transforms; None for a text that is not a pipeline.

    Functions under the text's key python_extensions are used if they are not in `transforms`.
    """
    given = tuple((transforms or {}).items())
    short = len(text) + sum(len(source) for _, source in given) <= _LONGEST_KEPT
    return (_parse_script_cached if short else _parse_script)(text, given)


def make_script_of(root: Node, transforms: Mapping[str, str]) -> str:
    """Return the script for a parsed pipeline; raises PipelineError and UnknownName if it is not valid."""
    functions = _find_functions(root, transforms)
    constants = _build_constants(functions)
    body = _format_pipeline(root)
    read = select_engine_keys(root)
    needed = sorted(find_required_parameters(read))
    optional = sorted(find_parameters(read) - {*needed})
    parameters = f", with {', '.join(needed)} in the environment" if needed else ""
    how = _format_text(f"Run it where Spindle is installed: python pipeline.py{parameters}")
    parts = [_HEAD.format(how=how, imports="import os\n\n" if needed or optional else "")]
    parts.extend(f"\n{constants[name]} = {_format_text(source)}\n" for name, source in functions.items())
    parts.append(f"\npipeline = {body}\n")
    given = (
        ", {" + ", ".join(f"{_format_value(name, 0)}: os.environ[{_format_value(name, 0)}]" for name in needed) + "}"
        if needed
        else ", {}"
        if optional
        else ", None"
    )
    if optional:
        names = ", ".join(_format_value(name, 0) for name in optional)
        given += f" | {{name: os.environ[name] for name in ({names},) if name in os.environ}}"
    held = ", ".join(f"{_format_value(name, 0)}: {constant}" for name, constant in constants.items())
    given += ", context" + (f", {{{held}}}" if held else "")
    parts.append(_TAIL.format(given=given))
    return "".join(parts)


def _parse_script(text: str, transforms: tuple[tuple[str, str], ...]) -> str | None:
    try:
        return make_script_of(document.parse(text), dict(transforms))
    except (PipelineError, UnknownName):
        return None


_parse_script_cached = lru_cache(maxsize=1024)(_parse_script)


def _find_functions(root: Node, given: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the row transforms that the pipeline calls."""
    known = {normalize(name): (name, source) for name, source in (*_iter_inline_functions(root), *given.items())}
    found: dict[str, str] = {}
    for call in _list_calls(root):
        base, _, name = str(_get_plain(call, "stage")).partition(":")
        if normalize(base) == "pythonrowtransform" and normalize(name.strip()) in known:
            own, source = known[normalize(name.strip())]
            found[own] = source
    return found


def _iter_inline_functions(root: Node) -> Iterator[tuple[str, str]]:
    stages: Any = cast(Any, root.to_plain()) if isinstance(root, MappingNode) else {}
    for key in ("python_extensions", "stages"):
        stages = stages.get(key) if isinstance(stages, dict) else None
    for name, extension in cast(dict[str, Any], stages if isinstance(stages, dict) else {}).items():
        source = extension.get("function") if isinstance(extension, dict) else None
        if isinstance(source, str):
            yield name, source


def _list_calls(root: Node) -> tuple[Node, ...]:
    stages = root.get("pipeline") if isinstance(root, MappingNode) else None
    return stages.items if isinstance(stages, SequenceNode) else ()


def _get_plain(node: Node, key: str) -> Plain:
    child = node.get(key) if isinstance(node, MappingNode) else None
    return child.to_plain() if child else None


def _format_pipeline(root: Node) -> str:
    arguments = [f"fetch={_format_value(_get_plain(root, 'fetch'), 4)}"] if _get_plain(root, "fetch") else []
    calls = [_format_call(str(_get_plain(each, "stage")), each.get("args") if isinstance(each, MappingNode) else None)
             for each in _list_calls(root)]  # fmt: skip
    arguments.append(_format_lines("stages=[", calls, "]", 4) if calls else "stages=[]")
    for key in ("output", "spindle", "checks"):
        if _get_plain(root, key):
            arguments.append(f"{key}={_format_value(_get_plain(root, key), 4)}")
    return _format_lines("Pipeline.of(", arguments, ")", 0)


def _format_call(name: str, arguments: Node | None) -> str:
    registered, kind = find_stage(name)
    given = [json.dumps(registered, ensure_ascii=False)]
    items: list[Plain] = []
    named: Plain = None
    if isinstance(arguments, MappingNode):
        named = arguments.to_plain()
    elif isinstance(arguments, SequenceNode):
        items = [each.to_plain() for each in arguments.items]
        if kind.rest is None and items and isinstance(items[-1], dict):
            named = items.pop()
    elif isinstance(arguments, ScalarNode) and arguments.value is not None:
        items = [arguments.value]
    given.extend(_format_value(item, 12) for item in items)
    if isinstance(named, dict):
        if all(_is_keyword(key) for key in named):
            given.extend(f"{key}={_format_value(value, 12)}" for key, value in named.items())
        else:
            given.append(_format_value(named, 12))
    return _format_items("stage(", given, ")", 8)


def _is_keyword(name: str) -> bool:
    """Return whether `name=` is valid for an argument; Python normalizes names that are not ASCII."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__"


def _format_value(value: Plain, indent: int) -> str:
    if isinstance(value, dict):
        items = (
            f"{json.dumps(key, ensure_ascii=False)}: {_format_value(each, indent + 4)}" for key, each in value.items()
        )
        return _format_items("{", items, "}", indent)
    if isinstance(value, list):
        return _format_items("[", (_format_value(each, indent + 4) for each in value), "]", indent)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _format_items(begin: str, items: Iterable[str], end: str, indent: int) -> str:
    """Format items on one line if they fit, otherwise one item per line."""
    items = list(items)
    line = f"{begin}{', '.join(items)}{end}"
    return line if indent + len(line) <= _WIDTH and "\n" not in line else _format_lines(begin, items, end, indent)


def _format_lines(begin: str, items: Iterable[str], end: str, indent: int) -> str:
    inner = "".join(f"{' ' * (indent + 4)}{item},\n" for item in items)
    return f"{begin}\n{inner}{' ' * indent}{end}"


def _build_constants(names: Iterable[str]) -> dict[str, str]:
    """Return a constant's name per function, numbered where names clash."""
    constants: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = "FUNCTION_" + re.sub(r"\W", "_", name, flags=re.ASCII).upper()
        numbered = (f"{plain}_{number}" for number in count(len(taken) + 1))
        constants[name] = next(each for each in chain([plain], numbered) if each not in taken)
        taken.add(constants[name])
    return constants


def _format_text(source: str) -> str:
    """Format a text as a literal, with escapes only where necessary."""
    plain = all(line.isprintable() for line in source.splitlines()) and "\r" not in source
    return (
        f'"""{source}"""'
        if plain and '"' not in source[-1:] and '"""' not in source and "\\" not in source
        else repr(source)
    )
