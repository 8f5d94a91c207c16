"""Scripts are read back: what `make_script` has written gives the pipeline that it was written from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import PipelineError
from pipelines.language.nodes import parse, write_yaml
from pipelines.planning.script import make_script
from pipelines.planning.script_reader import read_script

ROOT = Path(__file__).resolve().parents[3]
PIPELINES = [*(ROOT / "examples").glob("*.yaml"), *Path(__file__).parent.rglob("*.yaml")]
TEXTS = st.sampled_from(
    ["yes", "1e5", "1_0", "0x1f", "", "~", " a ", "a: b", "# a", "é\u2028", "two\nlines\n", "'", "2026-01-01"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**12) | st.floats(allow_nan=False) | TEXTS | st.text("ab \t\n'\"\\:"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_a_script_gives_its_pipeline_back(path: Path) -> None:
    written = make_script(path.read_text())
    if written is None:  # a declaration of projects, or a plan of a golden error
        pytest.skip("no pipeline")
    script = read_script(written)
    assert make_script(write_yaml({**script.pipeline}), script.transforms) == written


@given(VALUES)
def test_values_that_are_written_as_yaml_are_read_as_they_were(value: object) -> None:
    assert parse(write_yaml({"key": value})).to_plain() == {"key": value}  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "value"),
    [('float("inf")', math.inf), ("-1.5", -1.5), ("('a', 1)", ["a", 1]), ('"a" "b"', "ab"), ("None", None)],
)
def test_literals_are_values(text: str, value: object) -> None:
    script = read_script(f"pipeline = Pipeline.of(stages=[stage('echo', {text})])")
    assert script.pipeline["pipeline"] == [{"stage": "echo", "args": [value]}]


@pytest.mark.parametrize(
    "text", ["print(1)", "pipeline = [Pipeline.of()", "pipeline = Pipeline.of", "Pipeline.of()", "\0"]
)
def test_other_python_is_no_script(text: str) -> None:
    assert read_script(text) is None


@pytest.mark.parametrize(
    "stages",
    ["[stage(name)]", "[stage('echo', *rows)]", "[stage(**rows)]", "[{**a}]", "[{1: 2}]", "[b'']", "[1j]", "{x}"],
)
def test_what_is_computed_is_refused_with_its_line(stages: str) -> None:
    with pytest.raises(PipelineError) as refused:
        read_script(f"\npipeline = Pipeline.of(stages={stages})")
    assert [(each.code, each.line) for each in refused.value.problems] == [("invalid-structure", 2)]
