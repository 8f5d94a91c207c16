from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import Pipeline, PipelineError
from pipelines.language.nodes import MAX_BYTES, parse


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
    parsed = parse(text).plain()
    assert (type(parsed), parsed) == (type(value), value)


_ANCHORS = "anchors and aliases are not allowed; a value that begins with & or * must be in quotes"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "the pipeline is empty"),
        ("# nothing\n", 1, 1, "the pipeline is empty"),
        ("a: 1\nb: &x 2\n", 2, 4, _ANCHORS),
        ("a: 1\nb: *x\n", 2, 4, _ANCHORS),
        ("a: 1\n<<: {a: 2}\na: 3\n", 3, 1, "the key 'a' stands twice (first in line 1)"),
        ("a: !!python/object:os.system x", 1, 4, "tags are not allowed"),
        ("---\na: 1\n---\nb: 1\n", 3, 1, "only one document is allowed"),
        ("? [a]\n: b\n", 1, 3, "a key must be a plain name"),
        ("a: \x00", 1, 4, "the character U+0000 is not allowed in YAML"),
        ("a: 1\nb: \ud800", 2, 4, "the character U+D800 is not allowed in YAML"),
        ("[" * 51, 1, 51, "nested more than 50 deep"),
        ("a: " + "x" * MAX_BYTES, 1, 1, "a pipeline may have at most 256 KiB"),
    ],
)
def test_what_is_refused_is_located(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(PipelineError) as error:
        parse(text)
    (problem,) = error.value.problems
    assert (problem.line, problem.column, problem.message) == (line, column, message)


@pytest.mark.parametrize(
    ("text", "line", "advice"),
    [
        ("a: b: c\n", 1, "a value with ': ' in it must be in quotes"),
        ("a:\n  - b\n c: d\n", 3, "the lines of the list or map from line 1 on must be indented alike"),
        ("a: 'b\n", 2, "the quote in line 1 is not closed"),
        ("a:\n\t- b\n", 2, "a tab stands here, and YAML is indented with spaces"),
        ("\ufeffa: @id\n", 1, "a value that begins with @ must be in quotes"),
        ("a:\r\rb: @id\r", 3, "a value that begins with @ must be in quotes"),
        ("a: * > li\n", 1, "a value that begins with * or & must be in quotes"),
        ("a: [{b: #main}]\nc: d\n", 2, "the [ or { of line 1 is not closed, or a value in it with ': ', #, "),
        ("a: {\n  b: #main}\n", 3, "a value is missing before it; one that begins with # must be in quotes"),
        ("a: [b, c\nd: e\n", 2, "the [ or { of line 1 is not closed"),
        ('a: "\\d"\n', 1, "in double quotes \\ begins an escape"),
        ("a: > 5 AND b\n", 1, "a value that begins with > or | must be in quotes"),
        ("a: |SELECT 1\n", 1, "a value that begins with > or | must be in quotes"),
        ("a: |\n \tb\n", 2, "YAML is indented with spaces"),
        ("a: - b\n", 1, "a list begins in a line of its own; a value that begins with - must be in quotes"),
        ("a: ? b\n", 1, "a value that begins with ? must be in quotes"),
        ("\ufeffa: ]\n", 1, "a value that begins with ] must be in quotes"),
        ("- ,b\n", 1, "a value that begins with , must be in quotes"),
        (
            "a: 'it's'\n",
            1,
            "the value ends with the ' before this; put all of it in other quotes, or write a ' within it as ''",
        ),
        (
            'a: "b" c\n',
            1,
            'the value ends with the " before this; put all of it in other quotes, or write a " within it as \\"',
        ),
        ("- 'b' 'c'\n", 1, "the value ends with the ' before this; "),
        ("a: {b: 'it's'}\n", 1, "the value ends with the ' before this; "),
        ("a: ['b'}\n", 1, "the [ or { of line 1 is not closed"),
        ("a: ['b'\n", 2, "the [ or { of line 1 is not closed"),
        ("a: {b} c\n", 1, "the value ends before this; all of it must be in quotes"),
        ("a:\r  - 'b'\r c: d\r", 3, "the lines of the list or map from line 1 on must be indented alike"),
    ],
)
def test_what_is_no_yaml_is_told_what_to_write(text: str, line: int, advice: str) -> None:
    with pytest.raises(PipelineError) as error:
        parse(text)
    (problem,) = error.value.problems
    said, _, told = problem.message.partition("; ")
    assert said.startswith("not valid YAML: ")
    assert (problem.line, told[: len(advice)]) == (line, advice)


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
