"""TPC-H and TPC-DS: what Trino takes has equal answers on both engines, and what is not its dialect is refused.

`UPDATE_GOLDEN=1` with SPINDLE_TEST_TRINO writes Trino's answers to tpc.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from core.data.sql.embedded.pool import Pool
from core.data.sql.service import Query
from core.errors import SpindleError
from tests.core.data.sql.differential.golden import describe_error, describe_page, find_difference, write_json
from tests.core.data.sql.differential.tpc import GENERATORS, load_statements, publish_suite
from tests.support.trino import ENGINES
from tests.support.warehouse import Warehouse, make_warehouse

GOLDEN = Path(__file__).with_name("tpc.json")
TAKEN = {"tpch": (21, 1), "tpcds": (89, 10)}  # statements that Trino takes, and others
pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=ENGINES)
def warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool
) -> Generator[Warehouse]:
    for warehouse in make_warehouse(tmp_path_factory.mktemp("tpc"), pool, request.param):
        for suite in GENERATORS:
            publish_suite(warehouse, suite)
        if warehouse.settings.trino and os.environ.get("UPDATE_GOLDEN"):
            answers = {
                name: _ask(warehouse, suite, sql) for suite in GENERATORS for name, sql in load_statements(suite)
            }
            GOLDEN.write_text(write_json(answers))
        yield warehouse


@pytest.mark.parametrize("suite", GENERATORS)
def test_statements_have_trinos_answers(warehouse: Warehouse, suite: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    statements = dict(load_statements(suite))
    differences = {name: _compare(warehouse, suite, sql, golden[name]) for name, sql in statements.items()}
    assert {name: found for name, found in differences.items() if found is not None} == {}
    refused = sum("error" in golden[name] for name in statements)
    assert (len(statements) - refused, refused) == TAKEN[suite]


def _compare(warehouse: Warehouse, suite: str, sql: str, expected: dict[str, Any]) -> str | None:
    found = _ask(warehouse, suite, sql)
    return find_difference(expected, found, sql)


def _ask(warehouse: Warehouse, suite: str, sql: str) -> dict[str, Any]:
    query = Query(sql, schema=suite, limit=10_000)
    try:
        return describe_page(warehouse.queries.run(warehouse.caller("acme"), query).page)
    except SpindleError as error:
        return describe_error(error)
