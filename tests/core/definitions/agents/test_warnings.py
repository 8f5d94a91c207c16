"""Warnings about the pipeline of an agent that is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.definitions.agents.validation import find_warnings
from pipelines.language.plugin_scope import ALL_PLUGINS
from pipelines.spark.jars import read_list

LOADS = "pipeline:\n- {stage: load_csv, args: [goods]}\n"
TABLE = f"{LOADS}- {{stage: save_delta, args: [saved]}}\n"


@pytest.fixture(autouse=True)
def nothing_can_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPINDLE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("SPINDLE_MAVEN", "http://127.0.0.1:9")


def test_java_libraries_that_are_missing_are_named_with_the_way_to_get_them(tmp_path: Path) -> None:
    assert find_warnings(LOADS, {}, ALL_PLUGINS) == []
    (warning,) = find_warnings(TABLE, {}, ALL_PLUGINS)
    assert warning.startswith("line 3: ")
    assert "spindle jars delta" in warning
    assert not (tmp_path / "jars").exists(), "nothing is fetched while an agent is written"
    (tmp_path / "jars").mkdir()
    for jar in read_list():
        (tmp_path / "jars" / jar.name).touch()
    assert find_warnings(TABLE, {}, ALL_PLUGINS) == []


def test_a_local_engine_that_cannot_run_the_plan_is_named() -> None:
    stages = "- {stage: extract, args: [{selector: h1, as: a}]}\n- {stage: sql_query, args: [SELECT a FROM rows]}\n"
    text = f"fetch: {{url: 'http://a.example/'}}\npipeline:\n{stages}spindle: {{engine: %s}}\n"
    (warning,) = find_warnings(text.replace("%s", "local"), {}, ALL_PLUGINS)
    assert warning.startswith("line 4: sql_query in line 4 needs Spark")
    assert find_warnings(text.replace("%s", "auto"), {}, ALL_PLUGINS) == []
