"""The tables and the statements of TPC-H and TPC-DS, made by DuckDB's extensions at the scale 0.01."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa

from pipelines.sql.type_names import convert_type
from tests.support.warehouse import Warehouse

GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}
SCALE = 0.01


def load_statements(suite: str) -> list[tuple[str, str]]:
    """Return the names, such as `tpch-1`, and the texts of a suite."""
    with _open(suite) as connection:
        rows = connection.execute(f"SELECT query_nr, query FROM {suite}_queries() ORDER BY 1").fetchall()
    return [(f"{suite}-{number}", text.strip().rstrip(";").rstrip()) for number, text in rows]


def publish_suite(warehouse: Warehouse, suite: str) -> None:
    """Publish the tables of a suite in a schema of its name."""
    for name, rows, columns in _make_tables(suite):
        warehouse.publish("acme", suite, name, rows, columns)


def _make_tables(suite: str) -> Iterator[tuple[str, pa.Table, list[dict[str, str]]]]:
    with _open(suite) as connection:
        connection.execute(f"CALL {GENERATORS[suite]}(sf={SCALE})")
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall():
            described = connection.execute(f"DESCRIBE {name}").fetchall()
            columns = [{"name": each[0], "type": convert_type(each[1], "duckdb", "spark")} for each in described]
            yield name, connection.execute(f"FROM {name}").to_arrow_table(), columns


def _open(suite: str) -> duckdb.DuckDBPyConnection:
    spec = find_spec(f"duckdb_extension_{suite}")
    assert spec is not None, f"the Python package duckdb-extension-{suite} is not installed"
    (folder,) = spec.submodule_search_locations or ()
    (file,) = Path(folder).rglob(f"{suite}.duckdb_extension")
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    connection.execute(f"LOAD '{file}'")
    return connection
