"""One statement, one answer: DuckDB and Trino give Trino's rows, names and types, or DuckDB refuses by name.

`UPDATE_GOLDEN=1` with SPINDLE_TEST_TRINO asks Trino again and writes its answers to golden.json, with which runs
without Trino compare.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest

from core.errors import SpindleError
from core.sql.embedded.pool import Pool
from core.sql.service import Query
from tests.core.sql.differential.golden import (
    GOLDEN,
    REFUSED_CODES,
    SCHEMA,
    Case,
    describe_error,
    describe_page,
    find_difference,
    load_cases,
    load_golden,
    publish_tables,
    record,
)
from tests.support.trino import ENGINES
from tests.support.warehouse import Warehouse, make_warehouse


@pytest.fixture(scope="module", params=ENGINES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Generator[Warehouse]:
    for warehouse in make_warehouse(tmp_path_factory.mktemp("lake"), pool, request.param):
        publish_tables(warehouse)
        if request.param == "trino" and os.environ.get("UPDATE_GOLDEN"):
            GOLDEN.write_text(_write_json(record(warehouse)))
        yield warehouse


@pytest.fixture(scope="module")
def golden(lake: Warehouse) -> dict[str, Any]:
    return load_golden()


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_a_statement_has_trinos_answer(lake: Warehouse, golden: dict[str, Any], case: Case) -> None:
    try:
        query = Query(case.sql, schema=SCHEMA, limit=10_000)
        found = describe_page(lake.queries.run(lake.caller("acme"), query).page)
    except SpindleError as error:
        found = describe_error(error)
    if case.refused and lake.settings.trino is None:
        assert found.get("error") in REFUSED_CODES, found
        return
    difference = find_difference(golden[case.sql], found, case.sql)
    assert difference is None, f"{case.sql}\n{difference}"


def _write_json(answers: dict[str, Any]) -> str:
    lines = (f"{json.dumps(sql)}: {json.dumps(answer, ensure_ascii=False)}" for sql, answer in answers.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
