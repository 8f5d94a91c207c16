"""The public API: documented examples import only from it, and importing it loads neither Spark nor a browser."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import spindle
from pipelines.spark.session import build_conf
from spindle.dagster import build_pyspark_resource
from tests.support.imports import list_imported

ROOT = Path(__file__).parents[2]
INTERNAL = re.compile(r"^\s*(?:from|import) pipelines\b", re.MULTILINE)


def test_documents_and_examples_import_only_the_public_api() -> None:
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
    assert [str(file) for file in files if INTERNAL.search(file.read_text())] == []


def test_every_public_name_exists() -> None:
    assert [name for name in spindle.__all__ if not hasattr(spindle, name)] == []


def test_the_import_loads_neither_spark_nor_playwright() -> None:
    assert list_imported("import spindle", ("pyspark", "playwright", "dagster")) == []


def test_dagsters_spark_has_the_settings_of_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_SPARK_MASTER", "local[3]")
    monkeypatch.setenv("SPINDLE_SPARK_DRIVER_MEMORY", "700m")
    monkeypatch.setenv("PYSPARK_PYTHON", "another")
    given = build_pyspark_resource(conf={"spark.ui.enabled": "false"}).spark_config
    wanted = {"spark.driver.memory": "700m", "spark.ui.enabled": "false"}
    assert given == build_conf("local[3]", conf=wanted)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
