"""Columns that become wider in a whole service, as both engines read them.

Each engine reads each format; the modes take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.libraries import needs_libraries
from tests.support.service import Service, serve_service
from tests.support.trino import ENGINES, trino_environment

pytestmark = [needs_libraries, pytest.mark.long]
MODES = ("append", "merge, keys: [id]")
NARROW = "cast(1 AS int) AS id, cast(1.1 AS float) AS score, cast(1.25 AS decimal(10,2)) AS price, "
NARROW += "named_struct('id', cast(1 AS int)) AS shop"
WIDE = "cast(1099511627776 AS bigint) AS id, cast(0.1 AS double) AS score, "
WIDE += "cast(123456789012.25 AS decimal(20,2)) AS price, "
WIDE += "named_struct('id', cast(2 AS bigint), 'name', 'b') AS shop"


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def queried(engine: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service whose queries this engine runs."""
    if engine == "duckdb":
        yield request.getfixturevalue("service")
        return
    with serve_service(tmp_path_factory.mktemp("trino"), trino_environment()) as service:
        yield service


@pytest.mark.parametrize(
    ("format_", "turn"), [pytest.param("parquet", 0, marks=pytest.mark.variant), ("delta", 1), ("iceberg", 0)]
)
def test_versions_have_all_rows_in_their_own_types(queried: Service, engine: str, format_: str, turn: int) -> None:
    mode = MODES[turn ^ ENGINES.index(engine)]
    (queried.files / "one.csv").write_text("n\n1\n")
    load = f"{{stage: load_csv, args: ['{queried.files}/one.csv']}}"
    query = '{stage: sql_query, args: ["SELECT ${COLUMNS} FROM rows"]}'
    job = queried.make_job(f"pipeline: [{load}, {query}]\noutput: {{format: {format_}, mode: {mode}}}\n")
    for columns in (NARROW, WIDE):
        execution = queried.execute(job, {"parameters": {"COLUMNS": columns}})
        status = queried.wait(job, execution, seconds=600)
        assert status["status"] == "COMPLETED", status
    (dataset,) = queried.get(f"/datasets?projectId={job.project_id}")

    def select(sql: str, **more: Any) -> list[dict[str, Any]]:
        return queried.post("/datasets/query", {"sql": sql, "datasetId": dataset["id"], **more})["results"]

    narrow = {"id": 1, "score": 1.100000023841858, "price": 1.25, "shop": {"id": 1, "name": None}}
    wide = {"id": 2**40, "score": 0.1, "price": 123456789012.25, "shop": {"id": 2, "name": "b"}}
    assert select("SELECT * FROM dataset ORDER BY id") == [narrow, wide]
    floats = ("score <> 1.1e0 AND score > 0.5e0", "score < 1.2e0 AND score > 1.1e0")
    for condition in (*floats, "price = DECIMAL '1.25'", "id < 5", "shop.id = 1"):
        assert select(f"SELECT id FROM dataset WHERE {condition}") == [{"id": 1}], condition
    assert select("SELECT * FROM dataset", version=1) == [{**narrow, "score": 1.1, "shop": {"id": 1}}]
