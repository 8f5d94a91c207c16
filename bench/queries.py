"""`python bench/queries.py`: five statements over one dataset, through the service's SQL and by the engines alone.

ROWS (10,000,000) are written as Parquet in eight files. Each statement runs REPEATS times in turn by the service on
DuckDB, and by a DuckDB connection that holds the same view; with SPINDLE_TEST_TRINO also by both on Trino. The goal is
1.1 times the engine alone, plus 5 ms.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from core.data.sql.service import Query, QueryService, open_sql_engine
from core.data.sql.trino.client import TrinoClient
from core.definitions.identity.api_keys import Identity
from core.infra.database import open_database
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import output_key
from core.tables import Base, Dataset, DatasetVersion, Organization, new_id

ROWS = int(os.environ.get("ROWS", "10000000"))
REPEATS = int(os.environ.get("REPEATS", "30"))
FILES = 8
COLUMNS = (("id", "bigint"), ("shop", "string"), ("price", "double"), ("day", "date"), ("stock", "int"))
STATEMENTS = {
    "count": "SELECT count(*) AS n FROM offers",
    "filter": "SELECT id, shop, price FROM offers WHERE id = 4242",
    "aggregate": "SELECT shop, count(*) AS n, avg(price) AS p, sum(stock) AS s FROM offers GROUP BY shop ORDER BY shop",
    "top": "SELECT id, price FROM offers WHERE stock > 90 ORDER BY price DESC, id LIMIT 100",
    "page": "SELECT * FROM offers WHERE shop = 'shop 7' ORDER BY id LIMIT 1000",
}


def write_rows(folder: Path) -> None:
    folder.mkdir(parents=True)
    size = ROWS // FILES
    for part in range(FILES):
        rows = (
            f"SELECT i AS id, 'shop ' || hash(i) % 50 AS shop, (hash(i + 1) % 100000) / 100.0::DOUBLE AS price, "
            f"DATE '2026-01-01' + CAST(i % 365 AS INTEGER) AS day, CAST(hash(i + 2) % 100 AS INTEGER) AS stock "
            f"FROM range({part * size}, {(part + 1) * size}) AS t(i)"
        )
        duckdb.execute(f"COPY ({rows}) TO '{folder}/part-{part:05}.parquet' (FORMAT parquet, COMPRESSION snappy)")


def publish_rows(settings: Settings) -> tuple[Identity, Path]:
    owner, execution, dataset_id = new_id(), new_id(), new_id()
    key = output_key(owner, execution, 1)
    folder = Path(open_storage(settings.storage).url_for(key, "spark"))
    write_rows(folder)
    database = open_database(settings)
    Base.metadata.create_all(database.engine)
    with database.write() as session:
        session.add(Organization(id=owner, name="bench", slug="bench"))
        session.flush()
        dataset = Dataset(id=dataset_id, organization_id=owner, name="offers", schema_slug="bench", slug="offers")
        session.add(dataset)
        session.flush()
        columns = [{"name": name, "type": type} for name, type in COLUMNS]
        version = DatasetVersion(
            dataset_id=dataset_id, execution_id=execution, locations=[key], columns=columns, row_count=ROWS
        )
        session.add(version)
        session.flush()
        dataset.current_version_id = version.id
    database.close()
    return Identity(owner, "key", frozenset({"datasets:read"})), folder


def open_service(settings: Settings, caller: Identity) -> Callable[[str], Any]:
    queries = QueryService(settings, open_database(settings), open_sql_engine(settings, open_storage(settings.storage)))
    return lambda sql: queries.run(caller, Query(sql)).page.json


def open_duckdb(folder: Path) -> Callable[[str], Any]:
    connection = duckdb.connect(config={"threads": 2, "memory_limit": "1GB"})
    connection.execute(f"CREATE VIEW offers AS FROM read_parquet('{folder}/*.parquet')")
    return lambda sql: connection.execute(sql).fetchall()


def open_trino(settings: Settings, caller: Identity) -> Callable[[str], Any]:
    client = TrinoClient(settings.trino)
    schema = f"org_{caller.organization_id.replace('-', '')}"
    ((name,),) = client.fetch(f"SHOW TABLES FROM hive.{schema}")
    return lambda sql: client.fetch(sql.replace("offers", f"hive.{schema}.{name}"))


def measure(name: str, contenders: dict[str, Callable[[str], Any]]) -> None:
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in range(REPEATS + 3):  # the first ones warm up
        for contender, run in contenders.items():
            started = time.perf_counter()
            run(STATEMENTS[name])
            times[contender].append((time.perf_counter() - started) * 1000)
    cells = []
    for found in times.values():
        kept = found[3:]
        cells.append(f"{statistics.median(kept):8.1f} {statistics.quantiles(kept, n=20)[18]:8.1f}")
    print(f"{name:10} " + "  ".join(cells), flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        settings = Settings(data=Path(data))
        caller, folder = publish_rows(settings)
        contenders = {"spindle": open_service(settings, caller), "duckdb": open_duckdb(folder)}
        if "SPINDLE_TEST_TRINO" in os.environ:
            rules = os.environ["SPINDLE_TEST_TRINO_RULES"]
            trino = Settings(data=Path(data), trino=os.environ["SPINDLE_TEST_TRINO"], trino_rules=Path(rules))
            contenders["spindle on trino"] = open_service(trino, caller)
            contenders["spindle on trino"](STATEMENTS["count"])
            contenders["trino"] = open_trino(trino, caller)
        print(f"{ROWS:,} rows; p50 and p95 in ms of: {', '.join(contenders)}")
        for name in STATEMENTS:
            measure(name, contenders)
        os._exit(0)  # query processes end with their pipes


if __name__ == "__main__":
    main()
