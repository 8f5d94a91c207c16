"""Statements made from the registry: both engines give one answer, or the embedded engine refuses."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from core.data.sql.embedded.pool import Pool
from core.data.sql.service import Query
from core.errors import SpindleError
from tests.core.data.sql.differential.generator import StatementGenerator
from tests.core.data.sql.differential.golden import describe_error, describe_page, find_difference
from tests.support.trino import trino_settings
from tests.support.warehouse import Warehouse, make_warehouse

NUMBER, JOINS, LAMBDAS, SEED = 2000, 300, 400, 30
ACCEPTED = 2150  # at least so many have an answer


@pytest.fixture
def engines(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Generator[tuple[Warehouse, Warehouse]]:
    """DuckDB and Trino; skips the test without Trino."""
    trino_settings()
    for embedded in make_warehouse(tmp_path_factory.mktemp("embedded"), pool, "duckdb"):
        for trino in make_warehouse(tmp_path_factory.mktemp("trino"), pool, "trino"):
            yield embedded, trino


def test_the_generator_is_deterministic() -> None:
    assert _make_statements(50, 50, 50) == _make_statements(50, 50, 50)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_both_engines_give_one_answer(engines: tuple[Warehouse, Warehouse]) -> None:
    embedded, trino = engines
    own = {sql: _ask(embedded, sql) for sql in _make_statements(NUMBER, JOINS, LAMBDAS)}
    raw = [sql for sql, answer in own.items() if answer.get("error") in ("query-failed", "unknown-function")]
    assert raw == []
    accepted = [sql for sql, answer in own.items() if "error" not in answer]
    assert len(accepted) >= ACCEPTED
    with ThreadPoolExecutor(4) as threads:
        answers = dict(zip(accepted, threads.map(lambda sql: _ask(trino, sql), accepted), strict=True))
    found = {sql: find_difference(answers[sql], own[sql], sql) for sql in accepted}
    assert {sql: difference for sql, difference in found.items() if difference is not None} == {}


def _make_statements(number: int, joins: int, lambdas: int) -> list[str]:
    """Return different statements: so many of single calls, of joins and of lambdas."""
    made = StatementGenerator(SEED).iterate(number)
    joined, computed = StatementGenerator(SEED).iterate_joins(joins), StatementGenerator(SEED).iterate_lambdas(lambdas)
    return [*dict.fromkeys((*made, *joined, *computed))]


def _ask(warehouse: Warehouse, sql: str) -> dict[str, Any]:
    try:
        return describe_page(warehouse.queries.run(warehouse.caller("acme"), Query(sql)).page)
    except SpindleError as error:
        return describe_error(error)
