"""load and save: formats with stages of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.pipeline import Pipeline
from tests.support.pipelines import Run, find_problem


def build(stage: str, args: str) -> str:
    before = "" if stage == "load" else "{stage: load_csv, args: [in.csv]}, "
    return f"pipeline: [{before}{{stage: {stage}, args: [{args}]}}]"


def test_formats_are_those_of_the_stages_of_their_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id;name\n1;a\n")
    source = f"{{stage: load, args: [csv, '{tmp_path}/in.csv', {{options: {{sep: ';', inferSchema: true}}}}]}}"
    sinks = [f"{{stage: save, args: [{name}, '{tmp_path}/{name}', overwrite]}}" for name in ("json", "parquet")]
    assert run(f"pipeline: [{source}, {', '.join(sinks)}]") == [{"id": 1, "name": "a"}]
    for name in ("json", "parquet"):
        assert run(build("load", f"{name}, '{tmp_path}/{name}'")) == [{"id": 1, "name": "a"}]
    assert run(build("load", f"text, '{tmp_path}/in.csv'")) == [{"value": "id;name"}, {"value": "1;a"}]


@pytest.mark.parametrize(
    ("code", "stage", "args"),
    [
        ("unknown-value", "load", "{format: kafka, options: {}}"),
        ("unknown-value", "save", "{format: kafka, options: {}}"),
        ("invalid-argument", "load", "{format: jdbc, options: {url: 'jdbc:h2:mem'}}"),
        ("unknown-argument", "load", "{format: csv, path: in.csv, options: {city: Oslo}}"),
        ("unsupported-mode", "save", "{format: csv, path: there, mode: merge}"),
    ],
)
def test_unknown_formats_and_wrong_options_are_problems(code: str, stage: str, args: str) -> None:
    problem = find_problem(build(stage, args))
    assert (problem.line, problem.code) == (1, code)


@pytest.mark.parametrize("stage", ["load", "save"])
def test_a_parameter_may_name_the_format(stage: str) -> None:
    Pipeline.from_yaml(build(stage, "{format: '${FORMAT}', path: there, options: {city: Oslo}}")).plan_open()
