"""`spindle check`: exit codes and its output as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.check import check
from cli.run import run

FETCH = "fetch: {url: 'http://a.example/'}\npipeline:\n"


SQL = (
    FETCH
    + "- {stage: extract, args: [{selector: h1, as: title}]}\n- {stage: sql_query, args: [SELECT title FROM rows]}\n"
)


def check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[int, list[dict[str, Any]]]:
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    code = check(file, [], as_json=True)
    return code, json.loads(capsys.readouterr().out)


def test_problems_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, problems = check_as_json(tmp_path, capsys, FETCH + "- {stage: extrct}\n- {stage: limit, args: [x]}\n")
    assert code == 1
    keys = ("path", "line", "column", "code", "severity")
    assert [tuple(problem[key] for key in keys) for problem in problems] == [
        ("pipeline[0].stage", 3, 11, "unknown-stage", "error"),
        ("pipeline[1].args.rows", 4, 25, "invalid-argument", "error"),
    ]
    assert all(problem["message"] for problem in problems)


def test_a_valid_file_has_no_problems_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FETCH + "- {stage: extract, args: [{selector: h1}]}\n"
    assert check_as_json(tmp_path, capsys, text) == (0, [])


def test_warnings_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FETCH + "- {stage: extract, args: [{selector: h1}]}\nspindel: {delay: 1}\n"
    code, (warning,) = check_as_json(tmp_path, capsys, text)
    assert (code, warning["code"], warning["line"], warning["severity"]) == (0, "unknown-key", 4, "warning")


def test_a_stage_that_a_plugin_may_bring_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = "- {stage: acmeTag, args: [x]}\n- {stage: sort, args: [tag]}\n"
    code, (warning,) = check_as_json(tmp_path, capsys, FETCH + stages)
    place = [warning[key] for key in ("path", "line", "column", "severity")]
    assert (code, place) == (0, ["pipeline[0].stage", 3, 11, "warning"])
    assert warning["code"] == "unknown-stage"


def test_a_stage_that_no_plugin_brings_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipeline.yaml").write_text("pipeline: [{stage: acmeLoad}]")
    assert run(tmp_path / "pipeline.yaml", None, [], guard=True) == 1
    assert ":1: unknown stage 'acmeLoad'" in " ".join(capsys.readouterr().err.split())


def test_libraries_that_cannot_be_had_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINDLE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("SPINDLE_MAVEN", "http://127.0.0.1:9")
    stages = "- {stage: extract, args: [{selector: h1}]}\n- {stage: save_avro, args: [a]}\n"
    text = f"{FETCH}{stages}output: {{format: delta}}\n"
    code, problems = check_as_json(tmp_path, capsys, text)
    assert (code, [each["code"] for each in problems]) == (1, ["missing-libraries"] * 2)
    assert [(each["line"], each["path"]) for each in problems] == [(4, ""), (None, "output")]
    assert "SPINDLE_MAVEN" in problems[0]["message"]


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        (FETCH + "- {stage: extract, args: [{selector: h1}]}\n", "without Spark"),
        (SQL, "Spark, because of sql_query in line 4"),
        (FETCH + "- {stage: extract, args: [{selector: h1}]}\nspindle: {engine: spark}\n", "Spark, because of "),
        ("pipeline:\n- {stage: load_csv, args: [a.csv]}\n", "without Spark if the file allows it"),
    ],
)
def test_the_plan_comes_with_its_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, engine: str
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    assert check(file, []) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"engine: {engine}")


def test_a_local_engine_that_cannot_run_the_plan_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, (problem,) = check_as_json(tmp_path, capsys, f"{SQL}spindle: {{engine: local}}\n")
    assert (code, problem["code"], problem["line"], problem["severity"]) == (1, "needs-spark", 4, "error")
    assert "sql_query in line 4" in problem["message"]
    assert check_as_json(tmp_path, capsys, f"{SQL}spindle: {{engine: auto}}\n") == (0, [])


def test_a_plan_for_spark_is_warned_about_without_java(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, (problem,) = check_as_json(tmp_path, capsys, SQL)
    assert (code, problem["code"], problem["line"], problem["severity"]) == (0, "missing-java", 4, "warning")
    assert problem["message"].startswith(
        f"sql_query in line 4 needs Spark, and there is no Java: JAVA_HOME is {tmp_path}"
    )
    assert check_as_json(tmp_path, capsys, FETCH + "- {stage: extract, args: [{selector: h1}]}\n") == (0, [])


def test_parameters_are_listed_and_unknown_ones_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text('pipeline:\n  - {stage: wget, args: ["https://shop.example/${CATEGORY}?page=${PAGE:-1}"]}\n')
    assert check(file, []) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "needed parameters: CATEGORY",
        "parameters with a default: PAGE",
    ]
    assert check(file, ["CATEGORY=books", "PAG=2"]) == 1
    assert "did you mean PAGE" in capsys.readouterr().err


def test_the_plan_has_the_defaults_of_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    text = f'{FETCH}- {{stage: extract, args: [{{selector: b, as: v, cast: "${{TYPE:-double}}"}}]}}\n'
    file.write_text(text + '- {stage: filter, args: ["v > ${MIN:-0}"]}\n- {stage: wget, args: ["http://${HOST}/"]}\n')
    assert check(file, []) == 0
    printed = capsys.readouterr().out
    assert "filter v > 0" in printed
    assert "v double" in printed
    assert "engine: without Spark" in printed
    file.write_text(text.replace("double", "doubel"))
    assert check(file, []) == 1
    assert "'doubel' is none of" in capsys.readouterr().err
