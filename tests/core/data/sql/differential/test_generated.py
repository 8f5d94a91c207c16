"""Statements made from the registry: both engines give one answer, or the embedded engine refuses."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from core.data.sql.embedded.pool import Pool
from tests.core.data.sql.differential.generator import StatementGenerator
from tests.core.data.sql.differential.golden import ask_all, find_difference
from tests.support.trino import trino_settings
from tests.support.warehouse import Warehouse, make_warehouse

NUMBER, JOINS, LAMBDAS, SEED = 1000, 150, 200, 30
ACCEPTED = 1050  # at least so many have an answer
VALUE = re.compile(r"SELECT (?!.* FROM ).* AS v", re.DOTALL)
TOGETHER = 20


@pytest.fixture
def engines(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Generator[tuple[Warehouse, Warehouse]]:
    """DuckDB and Trino; skips the test without Trino."""
    trino_settings()
    for embedded in make_warehouse(tmp_path_factory.mktemp("embedded"), pool, "duckdb"):
        for trino in make_warehouse(tmp_path_factory.mktemp("trino"), pool, "trino"):
            yield embedded, trino


def test_the_generator_is_deterministic() -> None:
    assert _make_statements(50, 50, 50) == _make_statements(50, 50, 50)


@pytest.mark.variant
@pytest.mark.timeout(1200)
def test_both_engines_give_one_answer(engines: tuple[Warehouse, Warehouse]) -> None:
    embedded, trino = engines
    own = ask_all(embedded, _make_statements(NUMBER, JOINS, LAMBDAS))
    raw = [sql for sql, answer in own.items() if answer.get("error") in ("query-failed", "unknown-function")]
    assert raw == []
    accepted = [sql for sql, answer in own.items() if "error" not in answer]
    assert len(accepted) >= ACCEPTED
    answers = _ask_together(trino, accepted)
    found = {sql: find_difference(answers[sql], own[sql], sql) for sql in accepted}
    assert {sql: difference for sql, difference in found.items() if difference is not None} == {}


def _make_statements(number: int, joins: int, lambdas: int) -> list[str]:
    """Return different statements: so many of single calls, of joins and of lambdas."""
    made = StatementGenerator(SEED).iterate(number)
    joined, computed = StatementGenerator(SEED).iterate_joins(joins), StatementGenerator(SEED).iterate_lambdas(lambdas)
    return [*dict.fromkeys((*made, *joined, *computed))]


def _ask_together(warehouse: Warehouse, statements: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the answer to each statement; those of a single value are asked as columns of common statements.

    Those of a common statement that fails are asked one by one.
    """
    values = [sql for sql in statements if VALUE.fullmatch(sql)]
    parts = [values[start : start + TOGETHER] for start in range(0, len(values), TOGETHER)]
    groups = {_join(part): part for part in parts}
    found = ask_all(warehouse, groups)
    answers: dict[str, dict[str, Any]] = {}
    for sql, group in groups.items():
        if "error" not in found[sql]:
            for (_, type_), value, single in zip(found[sql]["columns"], found[sql]["rows"][0], group, strict=True):
                answers[single] = {"columns": [["v", type_]], "rows": [[value]]}
    return answers | ask_all(warehouse, (sql for sql in statements if sql not in answers))


def _join(statements: Sequence[str]) -> str:
    columns = (f"{sql.removesuffix(' AS v')} AS v{number}" for number, sql in enumerate(statements))
    return "SELECT " + ", ".join(column.removeprefix("SELECT ") for column in columns)
