"""A pipeline as a Python script on the same API that the runner uses; running it gives the same rows."""

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
from pipelines.language.parameters import find_parameters
from pipelines.planning.reader import select_engine_keys
from pipelines.planning.stage import find_stage
from pipelines.registry.catalog import UnknownName

_WIDTH = 110
_LONGEST_KEPT = 16 * 1024  # characters: what is kept of all texts together stays within some tens of MiB
_HEAD = """{how}

{imports}from spindle import Pipeline, stage
from spindle.spark import start_session
"""
_TAIL = '''

def rows(spark, context=None):
    """The pipeline's rows as a DataFrame; without a context public addresses alone are fetched."""
    return pipeline.run(spark{given})


if __name__ == "__main__":
    rows(start_session()).show(truncate=False)
'''


def script(text: str, transforms: Mapping[str, str] | None = None) -> str | None:
    """The script of a pipeline's text with its row transforms; None for a text that is no pipeline.

    Functions that stand in the text itself, under python_extensions, are taken where `transforms` has none.
    """
    given = tuple((transforms or {}).items())
    short = len(text) + sum(len(source) for _, source in given) <= _LONGEST_KEPT
    return (_kept if short else _read)(text, given)


def script_of(root: Node, transforms: Mapping[str, str]) -> str:
    """The script of a pipeline that has been read; raises PipelineError and UnknownName for what is none."""
    functions = _functions(root, transforms)
    constants = _constants(functions)
    body = _pipeline(root)
    needed = sorted(find_parameters(select_engine_keys(root)))
    parameters = f", with {', '.join(needed)} in the environment" if needed else ""
    how = _text(f"Run it where Spindle is installed: python pipeline.py{parameters}")
    parts = [_HEAD.format(how=how, imports="import os\n\n" if needed else "")]
    parts.extend(f"\n{constants[name]} = {_text(source)}\n" for name, source in functions.items())
    parts.append(f"\npipeline = {body}\n")
    given = (
        ", {" + ", ".join(f"{_value(name, 0)}: os.environ[{_value(name, 0)}]" for name in needed) + "}"
        if needed
        else ", None"
    )
    held = ", ".join(f"{_value(name, 0)}: {constant}" for name, constant in constants.items())
    given += ", context" + (f", {{{held}}}" if held else "")
    parts.append(_TAIL.format(given=given))
    return "".join(parts)


def _read(text: str, transforms: tuple[tuple[str, str], ...]) -> str | None:
    try:
        return script_of(document.parse(text), dict(transforms))
    except (PipelineError, UnknownName):
        return None


_kept = lru_cache(maxsize=1024)(_read)


def _functions(root: Node, given: Mapping[str, str]) -> dict[str, str]:
    """The texts of the row transforms that the pipeline calls."""
    known = {normalize(name): (name, source) for name, source in (*_inline(root), *given.items())}
    found: dict[str, str] = {}
    for call in _calls(root):
        base, _, name = str(_plain(call, "stage")).partition(":")
        if normalize(base) == "pythonrowtransform" and normalize(name.strip()) in known:
            own, source = known[normalize(name.strip())]
            found[own] = source
    return found


def _inline(root: Node) -> Iterator[tuple[str, str]]:
    stages: Any = cast(Any, root.to_plain()) if isinstance(root, MappingNode) else {}
    for key in ("python_extensions", "stages"):
        stages = stages.get(key) if isinstance(stages, dict) else None
    for name, extension in cast(dict[str, Any], stages if isinstance(stages, dict) else {}).items():
        source = extension.get("function") if isinstance(extension, dict) else None
        if isinstance(source, str):
            yield name, source


def _calls(root: Node) -> tuple[Node, ...]:
    stages = root.get("pipeline") if isinstance(root, MappingNode) else None
    return stages.items if isinstance(stages, SequenceNode) else ()


def _plain(node: Node, key: str) -> Plain:
    child = node.get(key) if isinstance(node, MappingNode) else None
    return child.to_plain() if child else None


def _pipeline(root: Node) -> str:
    arguments = [f"fetch={_value(_plain(root, 'fetch'), 4)}"] if _plain(root, "fetch") else []
    calls = [_call(str(_plain(each, "stage")), each.get("args") if isinstance(each, MappingNode) else None)
             for each in _calls(root)]  # fmt: skip
    arguments.append(_broken("stages=[", calls, "]", 4) if calls else "stages=[]")
    for key in ("output", "spindle"):
        if _plain(root, key):
            arguments.append(f"{key}={_value(_plain(root, key), 4)}")
    return _broken("Pipeline.of(", arguments, ")", 0)


def _call(name: str, arguments: Node | None) -> str:
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
    given.extend(_value(item, 12) for item in items)
    if isinstance(named, dict):
        if all(_is_keyword(key) for key in named):
            given.extend(f"{key}={_value(value, 12)}" for key, value in named.items())
        else:
            given.append(_value(named, 12))
    return _fitted("stage(", given, ")", 8)


def _is_keyword(name: str) -> bool:
    """Whether an argument can be written `name=`: Python reads other letters than ASCII's as those that look alike."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__"


def _value(value: Plain, indent: int) -> str:
    if isinstance(value, dict):
        items = (f"{json.dumps(key, ensure_ascii=False)}: {_value(each, indent + 4)}" for key, each in value.items())
        return _fitted("{", items, "}", indent)
    if isinstance(value, list):
        return _fitted("[", (_value(each, indent + 4) for each in value), "]", indent)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _fitted(begin: str, items: Iterable[str], end: str, indent: int) -> str:
    """On one line where it fits, else an item a line."""
    items = list(items)
    line = f"{begin}{', '.join(items)}{end}"
    return line if indent + len(line) <= _WIDTH and "\n" not in line else _broken(begin, items, end, indent)


def _broken(begin: str, items: Iterable[str], end: str, indent: int) -> str:
    inner = "".join(f"{' ' * (indent + 4)}{item},\n" for item in items)
    return f"{begin}\n{inner}{' ' * indent}{end}"


def _constants(names: Iterable[str]) -> dict[str, str]:
    """A constant for each name, numbered where others before it have the same."""
    constants: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = "FUNCTION_" + re.sub(r"\W", "_", name, flags=re.ASCII).upper()
        numbered = (f"{plain}_{number}" for number in count(len(taken) + 1))
        constants[name] = next(each for each in chain([plain], numbered) if each not in taken)
        taken.add(constants[name])
    return constants


def _text(source: str) -> str:
    """A text as it stands where that can be, else with escapes."""
    plain = all(line.isprintable() for line in source.splitlines()) and "\r" not in source
    return (
        f'"""{source}"""'
        if plain and '"' not in source[-1:] and '"""' not in source and "\\" not in source
        else repr(source)
    )
