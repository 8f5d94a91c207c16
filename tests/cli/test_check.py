"""`spindle check`: exit codes and its output as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.check import check

FETCH = "fetch: {url: 'http://a.example/'}\npipeline:\n"


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
