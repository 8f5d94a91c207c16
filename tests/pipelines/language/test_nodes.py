from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import PipelineError
from pipelines.language.nodes import MAX_BYTES, parse
from pipelines.pipeline import Pipeline


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("12", 12),
        ("-0", 0),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e3", 1000.0),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2026-11-21", "2026-11-21"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    parsed = parse(text).to_plain()
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "line", "column", "code"),
    [
        ("", 1, 1, "empty-pipeline"),
        ("a: \x00", 1, 4, "invalid-character"),
        ("a: 1\nb: \ud800", 2, 4, "invalid-character"),
        ("a: " + "x" * MAX_BYTES, 1, 1, "too-large"),
        ("\ufeffa: @id\n", 1, 4, "invalid-yaml"),
        ("a:\r\rb: @id\r", 3, 4, "invalid-yaml"),
        ("\ufeffa: ]\n", 1, 4, "invalid-yaml"),
        ("a:\r  - 'b'\r c: d\r", 3, 2, "invalid-yaml"),
    ],
)
def test_problems_are_located(text: str, line: int, column: int, code: str) -> None:
    """Texts that the golden file of problems cannot contain, since they are not printable."""
    with pytest.raises(PipelineError) as error:
        parse(text)
    (problem,) = error.value.problems
    assert (problem.line, problem.column, problem.code) == (line, column, code)


def test_as_deep_as_allowed() -> None:
    parse("[" * 50 + "]" * 50)


_WORDS = st.sampled_from(
    [
        *("pipeline", "fetch", "url", "stage", "args", "extract", "wgetJoin", "wgetExplore", "limit", "load_csv"),
        *(
            "selector",
            "method",
            "as",
            "field",
            "text",
            "attr:href",
            "price",
            "Inner",
            "depth",
            "http://a/",
            "2",
            "true",
        ),
        *("-", ":", "?", "[", "]", "{", "}", ",", "#", "&", "*", "!", "|", ">", "'", '"', "%", "@", "`", "~"),
        *("$", "${X}", "$x", "\n", "\n  ", "\n- ", "\n  - ", " ", "\t", "\u0085", "\ufeff", "\x00", "é", "---", "..."),
    ]
)


@pytest.mark.long
@settings(max_examples=400)
@given(st.one_of(st.text(), st.lists(_WORDS).map("".join)))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    _read_or_refuse(text)


_KEYS = st.sampled_from(
    ["stage", "args", "selector", "method", "as", "field", "extractors", "depth", "joinType", "path", "url"]
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["a", "$x", "${X}", "text", "[", "http://a/"])),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner)),
    max_leaves=20,
)
_STAGES = st.sampled_from(["extract", "flatSelect", "wgetJoin", "wgetExplore", "wget", "load_csv", "limit", "nonsense"])
_BLOCKS = st.dictionaries(st.sampled_from(["fetch", "output", "spindle"]), _VALUES)


@pytest.mark.long
@settings(max_examples=400)
@given(st.lists(st.tuples(_STAGES, _VALUES), max_size=4), _BLOCKS)
def test_any_tree_is_planned_or_refused_with_a_line(
    stages: list[tuple[str, object]], blocks: dict[str, object]
) -> None:
    pipeline = [{"stage": name, "args": arguments} for name, arguments in stages]
    _read_or_refuse(json.dumps({"fetch": {"url": "http://a/"}, **blocks, "pipeline": pipeline}))


def _read_or_refuse(text: str) -> None:
    with suppress(PipelineError):
        Pipeline.from_yaml(text).check()
        return
    with pytest.raises(PipelineError) as refused:
        Pipeline.from_yaml(text).check()
    lines = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", text))
    assert refused.value.problems
    for problem in refused.value.problems:
        assert problem.message
        assert problem.line in range(1, lines + 2)
        assert problem.column is not None
