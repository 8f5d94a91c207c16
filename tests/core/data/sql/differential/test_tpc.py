"""TPC-H and TPC-DS: what Trino takes has equal answers on both engines, and what is not its dialect is refused.

`UPDATE_GOLDEN=1` with SPINDLE_TEST_TRINO writes Trino's answers to tpc.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from core.data.sql.embedded.pool import Pool
from tests.core.data.sql.differential.golden import ask_all, find_difference, write_json
from tests.core.data.sql.differential.tpc import GENERATORS, load_statements, publish_suite
from tests.support.warehouse import Warehouse, make_warehouse

GOLDEN = Path(__file__).with_name("tpc.json")
TAKEN = {"tpch": (21, 1), "tpcds": (89, 10)}  # statements that Trino takes, and others
pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["duckdb", pytest.param("trino", marks=pytest.mark.variant)])
def warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool
) -> Generator[Warehouse]:
    for warehouse in make_warehouse(tmp_path_factory.mktemp("tpc"), pool, request.param):
        for suite in GENERATORS:
            publish_suite(warehouse, suite)
        if warehouse.settings.trino.address and os.environ.get("UPDATE_GOLDEN"):
            answers = {}
            for suite in GENERATORS:
                statements = dict(load_statements(suite))
                found = ask_all(warehouse, statements.values(), suite)
                answers |= {name: found[sql] for name, sql in statements.items()}
            GOLDEN.write_text(write_json(answers))
        yield warehouse


@pytest.mark.parametrize("suite", GENERATORS)
def test_statements_have_trinos_answers(warehouse: Warehouse, suite: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    statements = dict(load_statements(suite))
    answers = ask_all(warehouse, statements.values(), suite)
    differences = {name: find_difference(golden[name], answers[sql], sql) for name, sql in statements.items()}
    assert {name: found for name, found in differences.items() if found is not None} == {}
    refused = sum("error" in golden[name] for name in statements)
    assert (len(statements) - refused, refused) == TAKEN[suite]
