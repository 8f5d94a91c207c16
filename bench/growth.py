"""What is kept of an execution before a cleanup and after it: `python -m bench.growth [EXECUTIONS [COPIES]]`.

Executes a job of 20 pages on SQLite and on PostgreSQL. The rows of one execution are stored COPIES times, so that a
table's pages and indexes are measured as many executions fill them. Files count by their blocks, tables after VACUUM.
Rows of the output are data, and no part of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr
from sqlalchemy import Connection, Engine, Table, create_engine, insert, make_url, select, text

from bench.service import create_job, describe_machine, post, run_spindle, wait_until_completed
from bench.sites import serve_catalog
from cli.cleanup import open_cleaner
from core.infra.settings import Settings
from core.tables import Base, Execution, new_id, now
from tests.support.postgres import cluster

EXECUTIONS, COPIES = map(int, (*sys.argv[1:3], *("20", "2000")[len(sys.argv) - 1 :]))
WARM_UP, DAYS, BATCH = 5, 40, 500
NO_GROWTH = ("up.log", "spindle.log", ".db")  # the last one is the database of Dagster's events without a run
DATABASE = ("spindle.db", "runs.db", "index.db", "schedules.db")
SIZES = {
    "sqlite": "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) GROUP BY tbl_name",
    "postgresql": "SELECT relname, pg_table_size(oid) + pg_indexes_size(oid) FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = 'public'::regnamespace",
}
PIPELINE = """
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: join, args: [li.item a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: .price, as: price}}]}}
"""


def main() -> None:
    print(describe_machine())
    with serve_catalog(20, 5_000) as url:
        measure_growth(url, None)
        with cluster() as server:
            measure_growth(url, server.url)


def measure_growth(url: str, database_url: str | None) -> None:
    environment = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8", "SPINDLE_SPARE_DRIVERS": "0"}
    environment |= {"SPINDLE_DATABASE_URL": database_url} if database_url else {}
    with run_spindle(environment) as service, open_engine(database_url, service.data) as engine:
        settings = Settings(data=service.data, database_url=SecretStr(database_url) if database_url else None)
        job = create_job(service.client, "growth", PIPELINE.format(url=url))

        def execute(count: int) -> None:
            for _ in range(count):
                execution = post(service.client, f"{job}/execute", {})["executionId"]
                wait_until_completed(service.client, job, execution)

        execute(WARM_UP)
        clean_up(settings)
        files, tables = measure_files(service.data), measure_tables(engine)
        execute(EXECUTIONS)
        copy_newest(engine, COPIES)
        for when in ("before", "after"):
            if when == "after":
                clean_up(settings)
            grown = {
                f"files of {kind}": size / EXECUTIONS for kind, size in (measure_files(service.data) - files).items()
            }
            found = measure_tables(engine) - tables
            grown |= {f"table {name}": size / (EXECUTIONS + COPIES) for name, size in found.items()}
            print(f"{engine.dialect.name}, {when} the cleanup: {sum(grown.values()):,.0f} bytes of an execution")
            for kind, size in sorted(grown.items(), key=lambda item: -item[1]):
                if size >= 1:
                    print(f"  {size:8,.0f}  {kind}")


@contextmanager
def open_engine(database_url: str | None, data: Path) -> Generator[Engine]:
    url = make_url(database_url or f"sqlite:///{data}/spindle.db")
    engine = create_engine(url.set(drivername="postgresql+psycopg") if database_url else url)
    try:
        yield engine
    finally:
        engine.dispose()


def clean_up(settings: Settings) -> None:
    """Clean up as if the days of all settings had passed."""
    with open_cleaner(settings) as cleaner:
        cleaner.clean_up(now() + timedelta(days=DAYS))


def copy_newest(engine: Engine, copies: int) -> None:
    """Store the rows that name the newest execution again for as many executions, each a second later."""
    with engine.begin() as connection:
        newest = connection.scalar(select(Execution.id).order_by(Execution.id.desc()).limit(1))
        rows = {table: [*find_rows(connection, table, newest)] for table in Base.metadata.sorted_tables}
        for number in range(1, copies + 1):
            other, later = new_id(), timedelta(seconds=number)
            for table, found in rows.items():
                for row in found:
                    values = {name: rename(value, str(newest), other) for name, value in row.items()}
                    values |= {name: value + later for name, value in row.items() if isinstance(value, datetime)}
                    values |= {"number": row["number"] + number} if "number" in row else {}
                    if newest not in row.values() or table.name != "executions":
                        values |= {"id": new_id()} if isinstance(row.get("id"), str) else {}
                        if isinstance(row.get("id"), int):
                            del values["id"]
                    connection.execute(insert(table).values(values))


def rename(value: Any, old: str, new: str) -> Any:
    """Replace an id in a text and in the texts of JSON, such as paths."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [rename(each, old, new) for each in cast(list[Any], value)]
    if isinstance(value, dict):
        return {name: rename(each, old, new) for name, each in cast(dict[str, Any], value).items()}
    return value


def find_rows(connection: Connection, table: Table, execution_id: str | None) -> Iterator[dict[str, Any]]:
    name = "id" if table.name == "executions" else "execution_id"
    if name in table.columns:
        found = connection.execute(select(table).where(table.c[name] == execution_id))
        yield from (dict(row) for row in found.mappings())


def measure_tables(engine: Engine) -> Counter[str]:
    """Return the bytes of each table with its indexes; Dagster's in SQLite are files."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("PRAGMA busy_timeout = 60000"))
            connection.execute(text("VACUUM"))
        else:  # its own tables: those of the system are in use
            connection.execute(text(f"VACUUM FULL {', '.join(Base.metadata.tables)}"))
        return Counter({name: size for name, size in connection.execute(text(SIZES[engine.dialect.name]))})


def measure_files(data: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in data.rglob("*"):
        is_database = path.name.startswith(DATABASE)
        if not is_database and not path.name.startswith(NO_GROWTH) and path.exists():
            place = path.relative_to(data).parts
            if "output" not in place and not (path / "output").exists() and not [*path.glob("*/output")]:
                found["/".join(place[:2])] += path.stat().st_blocks * 512
    return found


if __name__ == "__main__":
    main()
