"""What is not in the registry of syntax, functions and casts is refused by name, and the documentation lists it."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from core.data.sql.embedded.pool import Pool
from core.errors import SpindleError
from pipelines.sql.gate import TRINO_FUNCTIONS
from pipelines.sql.signatures import load_signatures
from tests.support.warehouse import Warehouse, make_warehouse

pytestmark = pytest.mark.duckdb
DOCUMENTATION = Path(__file__).parents[4] / "docs" / "sql.md"
FUNCTIONS_OF_OTHER_DIALECTS = ("left('abc', 1)", "nvl(1, 2)", "datediff('day', DATE '2024-01-01', DATE '2024-01-02')",
                               "list_aggregate(ARRAY[1], 'sum')", "initcap('a')")  # fmt: skip
SYNTAX_OF_OTHER_DIALECTS = (
    *("SELECT 'a' ILIKE 'A'", "SELECT 7 DIV 2", "SELECT 5 << 3", "SELECT true IS TRUE", "SELECT 'a' 'b'"),
    *("SELECT DISTINCT ON (id) id FROM products", "SELECT * EXCLUDE (id) FROM products", "SELECT ARRAY[1, 2][1:2]"),
    *("SELECT id FROM products GROUP BY ALL", "SELECT p.id FROM products p SEMI JOIN products q ON p.id = q.id"),
)
NAMES_AND_TYPES = (
    ("SELECT id AS k FROM products WHERE k = 1", "COLUMN_NOT_FOUND"),
    ("SELECT id AS k, count(*) AS n FROM products GROUP BY k", "COLUMN_NOT_FOUND"),
    ("SELECT id AS k, k + 1 AS l FROM products", "COLUMN_NOT_FOUND"),
    ("WITH t AS (SELECT CAST(id AS varchar) AS x FROM products) SELECT x + 1 FROM t", "TYPE_MISMATCH"),
    ("SELECT abs('1')", "FUNCTION_NOT_FOUND"),
    ("SELECT transform(ARRAY['a'], x -> abs(x))", "FUNCTION_NOT_FOUND"),
    ("SELECT sum(x) FROM (VALUES true) AS t(x)", "FUNCTION_NOT_FOUND"),
    ("SELECT id FROM products WHERE id", "TYPE_MISMATCH"),
    ("SELECT CAST(true AS date)", "TYPE_MISMATCH"),
    ("SELECT DISTINCT name FROM products ORDER BY id", "EXPRESSION_NOT_IN_DISTINCT"),
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Generator[Warehouse]:
    yield from make_warehouse(tmp_path_factory.mktemp("registry"), pool, "duckdb")


def find_code(warehouse: Warehouse, sql: str) -> str:
    answer = warehouse.answer(sql, schema="shop")
    assert isinstance(answer, SpindleError), answer
    return str(answer.details[0].code)


@pytest.mark.parametrize("call", FUNCTIONS_OF_OTHER_DIALECTS)
def test_functions_of_other_dialects_are_unknown(warehouse: Warehouse, call: str) -> None:
    assert find_code(warehouse, f"SELECT {call}") == "unknown-function"


@pytest.mark.parametrize("sql", SYNTAX_OF_OTHER_DIALECTS)
def test_syntax_of_other_dialects_is_refused(warehouse: Warehouse, sql: str) -> None:
    assert find_code(warehouse, sql) in ("unsupported-sql", "invalid-sql", "COLUMN_NOT_FOUND")


@pytest.mark.parametrize(("sql", "code"), NAMES_AND_TYPES)
def test_names_and_types_are_trinos(warehouse: Warehouse, sql: str, code: str) -> None:
    assert find_code(warehouse, sql) == code


def test_functions_of_trino_that_are_not_listed_are_refused_by_name(warehouse: Warehouse) -> None:
    missing = sorted(TRINO_FUNCTIONS - load_signatures().keys() - {"all", "any", "some"})
    answer = warehouse.answer(f"SELECT {missing[0]}(1)")
    assert isinstance(answer, SpindleError)
    assert missing[0] in answer.sentence
    assert {find_code(warehouse, f"SELECT {name}(1)") for name in missing[::25]} <= {"unsupported-sql", "invalid-sql"}


def test_the_documentation_lists_all_functions() -> None:
    section = DOCUMENTATION.read_text("utf-8").split("Functions, with the types")[1].split("\n## ")[0]
    lines = section.partition("\n\n")[2]
    assert set(re.findall(r"`(\w+)`", lines)) == load_signatures().keys()
    assert load_signatures().keys() <= TRINO_FUNCTIONS
