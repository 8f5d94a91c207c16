"""Errors of the embedded engine are sentences about Trino's types, without DuckDB's own words."""

from __future__ import annotations

import re

import pytest

from core.errors import SpindleError
from tests.support.warehouse import Warehouse

OWN_WORDS = re.compile("INT\\d|HUGEINT|FLOAT|STRUCT|Candidate|You might|Use SET|Did you mean|LINE|trino_|strftime")
STATEMENTS = [
    "SELECT cast(x AS tinyint) FROM (VALUES 300, 2) t(x)",
    "SELECT x + 1 FROM (VALUES 9223372036854775807) t(x)",
    "SELECT sum(x) FROM (VALUES 9223372036854775807, 1) t(x)",
    "SELECT cast(x AS bigint) FROM (VALUES 1e30) t(x)",
    "SELECT cast('x' AS double)",
    "SELECT cast('x' AS timestamp)",
    "SELECT cast('x' AS decimal(5,2))",
    "SELECT cast(12345.678 AS decimal(5,2))",
    "SELECT cast(nan() AS decimal(10,2))",
    "SELECT DECIMAL '99999999999999999999999999999999999999' * 10",
    "SELECT x.y FROM (VALUES 1) t(x)",
    "SELECT a FROM (VALUES 1) t(a), (VALUES 2) u(a)",
    "SELECT a, count(*) FROM (VALUES (1, 2)) t(a, b) GROUP BY b",
    "SELECT (SELECT x FROM (VALUES 1, 2) t(x))",
    "SELECT json_parse('{')",
    "SELECT regexp_like('a', '(')",
    "SELECT from_base64('%%%')",
    "SELECT date_add('fortnight', 1, DATE '2026-01-01')",
    "SELECT date_trunc('x', DATE '2026-01-01')",
    "SELECT date_add('year', 300000, DATE '2026-01-01')",
    "SELECT INTERVAL '7' MONTH / 2",
    "SELECT row_number() OVER (ORDER BY x ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM (VALUES 1) t(x)",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_errors_have_a_sentence_and_a_code_of_ours(warehouse: Warehouse, sql: str) -> None:
    if warehouse.settings.trino.address is not None:
        pytest.skip("Trino has its own words")
    error = warehouse.answer(sql)
    assert isinstance(error, SpindleError)
    assert not OWN_WORDS.search(error.sentence), error.sentence
    assert error.details[0].code not in ("query-failed", None)
