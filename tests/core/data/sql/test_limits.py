"""Statements that would eat memory, disk or time end within their limits, and hold no other organization up."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.data.sql.embedded.pool import Pool
from core.data.sql.service import Query, QueryService
from core.errors import BadInput, SpindleError
from core.infra.settings import Settings
from tests.support.trino import ENGINES, engine_settings
from tests.support.warehouse import Warehouse, make_query_service, make_warehouse

SECONDS = 5
TEN_THOUSAND = "UNNEST(sequence(1, 10000))"
MANY = f"{TEN_THOUSAND} AS a(x), {TEN_THOUSAND} AS b(y)"
REFUSALS = (  # an engine may refuse at once what the other one begins
    *("NUMERIC_VALUE_OUT_OF_RANGE", "INVALID_FUNCTION_ARGUMENT", "NOT_SUPPORTED", "STACK_OVERFLOW", "queries-busy"),
    *("unsupported-sql", "FUNCTION_NOT_FOUND", "query-refused"),
)
DEEP = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 100000000)"
HOSTILE = {
    "time": f"SELECT count(*) FROM {MANY}, {TEN_THOUSAND} AS c(z) WHERE x * y = z + 1e9",
    "sorted": f"SELECT x, y FROM {MANY} ORDER BY x * y, y DESC OFFSET 99999999 LIMIT 1",
    "grouped": f"SELECT x * 10000 + y AS k, count(*) FROM {MANY} GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
    "distinct": f"SELECT count(DISTINCT lpad(cast(x * 10000 + y AS varchar), 100, 'x')) FROM {MANY}",
    "collected": f"SELECT cardinality(array_agg(lpad(cast(x AS varchar), 1000, 'x') ORDER BY y DESC)) FROM {MANY}",
    "recursive": f"{DEEP} SELECT max(n) FROM t",
    "windowed": f"SELECT max(s) FROM (SELECT sum(x) OVER (PARTITION BY y % 2 ORDER BY x, y) AS s FROM {MANY})",
    "pattern": "SELECT regexp_like(lpad('', 30000, 'a'), '(a*)*(a*)*(a*)*b')",
}


@pytest.fixture(scope="module", params=ENGINES)
def warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool
) -> Generator[Warehouse]:
    yield from make_warehouse(tmp_path_factory.mktemp("limits"), pool, request.param)


@pytest.fixture(scope="module")
def hasty(warehouse: Warehouse, pool: Pool) -> QueryService:
    """The service with a short time limit."""
    engine = "duckdb" if warehouse.settings.trino.address is None else "trino"
    settings = Settings(data=warehouse.settings.data, sql_timeout_seconds=SECONDS, **engine_settings(engine))
    return make_query_service(settings, warehouse.database, pool)


@pytest.mark.long
@pytest.mark.parametrize("sql", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_statement_ends_and_others_answer_meanwhile(
    warehouse: Warehouse, hasty: QueryService, sql: str
) -> None:
    acme, rival = warehouse.caller("acme"), warehouse.caller("rival")
    one = Query("SELECT 1 AS one")
    hasty.run(rival, one)
    with ThreadPoolExecutor(2) as threads:
        hostile = [threads.submit(_run, hasty, acme, sql) for _ in range(2)]
        answers_meanwhile = 0
        while not all(each.done() for each in hostile):
            assert warehouse.queries.run(rival, one).page.rows == [{"one": 1}]
            answers_meanwhile += not any(each.done() for each in hostile)
        outcomes = {each.result() for each in hostile}
    assert outcomes <= {"done", "query-timeout", "query-memory", *REFUSALS}
    if outcomes == {"query-timeout"}:  # else they may be over at once
        assert answers_meanwhile


def _run(service: QueryService, caller: object, sql: str) -> str:
    try:
        service.run(caller, Query(sql))  # pyright: ignore[reportArgumentType]
    except SpindleError as error:
        return error.details[0].code
    return "done"


@pytest.mark.parametrize("size", [100_001, 1_000_000])
def test_a_huge_statement_is_refused(warehouse: Warehouse, size: int) -> None:
    for sql in ("SELECT '" + "x" * size + "'", "SELECT " + "1 + " * (size // 4) + "1", "(" * size):
        with pytest.raises(BadInput) as error:
            warehouse.rows(sql)
        assert error.value.details[0].code == "invalid-sql"
