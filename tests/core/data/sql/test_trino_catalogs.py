"""The files of Trino that docs/storage.md shows are those of a Trino that the suites of this folder pass with."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables

from core.data.sql.trino.access import build_rules
from tests.support.trino import RULES, trino_settings

DOCUMENTATION = Path(__file__).parents[4] / "docs" / "storage.md"
BLOCK = re.compile(r"^`etc/([\w/-]+\.properties)`.*?\n```properties\n(.*?)```", re.DOTALL | re.MULTILINE)
OWN = ("s3.endpoint", "s3.region", "s3.aws-access-key", "s3.aws-secret-key", "hive.metastore.catalog.dir",
       "security.config-file")  # fmt: skip
DATABASE = ("catalog-name", "driver-class", "connection-url", "connection-user", "connection-password",
            "default-warehouse-dir")  # fmt: skip
TWINS = (
    ("hive", "hive.security", "read-only"),
    ("delta", "delta.security", "READ_ONLY"),
    ("iceberg", "iceberg.security", "READ_ONLY"),
)


def read_properties(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    own = {*OWN, *(f"iceberg.jdbc-catalog.{name}" for name in DATABASE)}
    return {name: value for name, _, value in pairs if name not in own}


def test_documented_files_are_those_of_a_trino_that_works() -> None:
    trino_settings()
    folder = Path(RULES or "").parent
    if not (folder / "catalog").is_dir():
        pytest.skip("the files of this Trino are on another machine")
    documented = {name: read_properties(text) for name, text in BLOCK.findall(DOCUMENTATION.read_text("utf-8"))}
    assert documented.keys() == {*(f"catalog/{name}.properties" for name, *_ in TWINS), "access-control.properties"}
    for name, properties in documented.items():
        assert properties == read_properties((folder / name).read_text("utf-8"))
    for name, key, value in TWINS:
        twin = read_properties((folder / "catalog" / f"{name}_ro.properties").read_text("utf-8"))
        expected = documented[f"catalog/{name}.properties"] | {key: value}
        expected.pop(f"{name}.register-table-procedure.enabled", None)
        assert twin == expected


def test_documented_rules_are_those_that_spindle_begins_with() -> None:
    (rules,) = re.findall(r"```json\n(.*?)```", DOCUMENTATION.read_text("utf-8"), re.DOTALL)
    assert json.loads(rules) == build_rules("admin")


def test_documented_tables_are_those_of_an_iceberg_catalog() -> None:
    (statements,) = re.findall(r"```sql\n(CREATE TABLE .*?)```", DOCUMENTATION.read_text("utf-8"), re.DOTALL)
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(statements)
        for table in (IcebergTables, IcebergNamespaceProperties):
            described = database.execute(f"PRAGMA table_info({table.__tablename__})").fetchall()
            assert {name for _, name, *_ in described} == {*table.__table__.columns.keys()}
