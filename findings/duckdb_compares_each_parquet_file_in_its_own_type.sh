#!/usr/bin/env bash
# DuckDB compares the values of each Parquet file in that file's own type, not in the type of the column that it shows.
#
# One would guess that a column of two files, FLOAT in the one and DOUBLE in the other (as after a table's column was
# widened), is filtered as the DOUBLE that SELECT shows. The filter is pushed into each file and there converted to the
# file's type: 1.1 becomes the nearest FLOAT, so `f = 1.1` finds a row that is 1.100000023841858, and `f <> 1.1` does not.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q duckdb==1.5.5 pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

folder = sys.argv[1]
print("duckdb", duckdb.__version__, "pyarrow", pa.__version__)
pq.write_table(pa.table({"f": pa.array([7.0], pa.float64())}), f"{folder}/1.parquet")
pq.write_table(pa.table({"f": pa.array([1.1], pa.float32())}), f"{folder}/2.parquet")
files = f"read_parquet(['{folder}/1.parquet', '{folder}/2.parquet'])"
connection = duckdb.connect()
print("all rows:", connection.execute(f"SELECT f, typeof(f) FROM {files} ORDER BY f").fetchall())
equal = connection.execute(f"SELECT f FROM {files} WHERE f = 1.1::DOUBLE").fetchall()
other = connection.execute(f"SELECT f FROM {files} WHERE f <> 1.1::DOUBLE").fetchall()
print("f = 1.1: ", equal)
print("f <> 1.1:", other)
connection.execute(f"CREATE TABLE rows AS SELECT * FROM {files}")
print("f = 1.1 over the same rows in a table:", connection.execute("SELECT f FROM rows WHERE f = 1.1::DOUBLE").fetchall())
assert equal == [(1.100000023841858,)] and other == [(7.0,)], "the behaviour has changed"
PYTHON
