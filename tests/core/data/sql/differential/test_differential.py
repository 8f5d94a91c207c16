"""One statement, one answer: DuckDB and Trino give Trino's rows, names and types, or DuckDB refuses by name.

The tables are Parquet files; in long runs Delta and Iceberg too, on Trino in a bucket where there is one. Of the
statements that read tables, these get every third, and all that select a whole table.

`UPDATE_GOLDEN=1` with SPINDLE_TEST_TRINO asks Trino again and writes its answers to golden.json, with which runs
without Trino compare.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from core.data.sql.embedded.pool import Pool
from tests.core.data.sql.differential.golden import (
    GOLDEN,
    REFUSED_CODES,
    SCHEMA,
    Case,
    ask_all,
    find_difference,
    load_cases,
    load_golden,
    make_tables_names,
    publish_tables,
    record,
    widen,
    write_json,
)
from tests.support.s3 import find_bucket
from tests.support.trino import ENGINES
from tests.support.warehouse import Warehouse, make_warehouse

READS_TABLE = re.compile(rf"\b({'|'.join(make_tables_names())})\b")
ALL_COLUMNS = "SELECT * FROM samples"
LAKES = [
    pytest.param((engine, format_), id=f"{engine}-{format_}", marks=() if format_ == "parquet" else pytest.mark.variant)
    for engine in ENGINES
    for format_ in ("parquet", "delta", "iceberg")
]


@dataclass
class Lake:
    """The tables in one format, on one engine."""

    warehouse: Warehouse
    format: str


@pytest.fixture(scope="module", params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Generator[Lake]:
    engine, format_ = request.param
    bucket = find_bucket() if engine == "trino" and format_ != "parquet" else None  # whose logs Trino reads
    for warehouse in make_warehouse(tmp_path_factory.mktemp("lake"), pool, engine, bucket):
        publish_tables(warehouse, format_)
        if request.param == ("trino", "parquet") and os.environ.get("UPDATE_GOLDEN"):
            GOLDEN.write_text(write_json(record(warehouse)))
        yield Lake(warehouse, format_)


def test_statements_have_trinos_answers(lake: Lake) -> None:
    golden, cases = load_golden(), load_cases()
    if lake.format != "parquet":
        cases = _choose_readers(cases)
    answers = ask_all(lake.warehouse, (case.sql for case in cases), SCHEMA)
    differences = {case.name: _compare(lake, case, golden, answers[case.sql]) for case in cases}
    assert {name: found for name, found in differences.items() if found is not None} == {}


def _choose_readers(cases: Sequence[Case]) -> list[Case]:
    readers = [case for case in cases if READS_TABLE.search(case.sql)]
    return [case for number, case in enumerate(readers) if number % 3 == 0 or ALL_COLUMNS in case.sql]


def _compare(lake: Lake, case: Case, golden: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Return the statement and what differs from the expected answer, or None."""
    if case.refused and lake.warehouse.settings.trino.address is None:
        return None if found.get("error") in REFUSED_CODES else f"{case.sql}\nis not refused: {found}"
    expected = golden[case.sql]
    if lake.format == "iceberg":
        expected, found = widen(expected), widen(found)
    difference = find_difference(expected, found, case.sql)
    return difference and f"{case.sql}\n{difference}"
