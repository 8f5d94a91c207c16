#!/usr/bin/env bash
# The Parquet files of an Iceberg table have other names than the columns of the table.
#
# One would guess that a column `unit price` is called so in the Parquet files too, since Parquet takes any name, and that
# a reader of the files, such as DuckDB or pyarrow, finds it by name. Iceberg gives its files the names that Avro allows:
# `unit_x20price`, and in objects `_x40type` for `@type`. Its own readers look for the number of the field. A reader that
# completes columns which files do not have, since they may be younger, shows nothing but nulls, without an error.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "pyiceberg[sql-sqlite]==0.12.0" pyarrow==26.0.1 duckdb==1.5.5
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from importlib.metadata import version
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
print("pyiceberg", version("pyiceberg"), "pyarrow", pa.__version__, "duckdb", duckdb.__version__)
catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
catalog.create_namespace("shop")
rows = pa.table({"unit price": [7.5], "thing": [{"@type": "Product"}], "id": [1]})
table = catalog.create_table("shop.prices", rows.schema)
table.append(rows)
(file,) = map(str, Path(f"{folder}/lake").rglob("*.parquet"))
read = f"read_parquet('{file}')"
empty = 'SELECT NULL::DOUBLE AS "unit price", NULL::INTEGER AS id WHERE false'
found = {
    "columns of the table": table.scan().to_arrow().column_names,
    "columns of the file": pq.read_schema(file).names,
    "field of the object": pq.read_schema(file).field("thing").type.field(0).name,
    "rows of the table": table.scan().to_arrow()["unit price"].to_pylist(),
    "DuckDB, completed": duckdb.sql(f'SELECT "unit price", id FROM (FROM {read} UNION ALL BY NAME {empty})').fetchall(),
}
for name, value in found.items():
    print(f"{name}: {value}")
assert found == {
    "columns of the table": ["unit price", "thing", "id"],
    "columns of the file": ["unit_x20price", "thing", "id"],
    "field of the object": "_x40type",
    "rows of the table": [7.5],
    "DuckDB, completed": [(None, 1)],
}, "it behaves otherwise now"
PYTHON
