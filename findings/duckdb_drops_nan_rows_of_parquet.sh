#!/usr/bin/env bash
# DuckDB leaves out rows of NaN that a filter on a Parquet file keeps.
#
# One would guess that a filter gives the same rows over a Parquet file as over the table that was written to it.
# It does not where a column has NaN: pyarrow leaves NaN out of the smallest and largest value of a row group, as the
# format allows, and DuckDB takes these for bounds of all values. Where they decide a comparison for the whole row group,
# the rows of NaN get that answer too: NaN <> 0.5 and NaN > 1 are true in DuckDB over a table, and such rows are lost.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q duckdb==1.5.5 pyarrow==26.0.1 numpy==2.2.6
"$folder/venv/bin/python" - "$folder/rows.parquet" <<'PYTHON'
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

file = sys.argv[1]
print("duckdb", duckdb.__version__, "pyarrow", pa.__version__)
pq.write_table(pa.table({"x": pa.array([0.5, 0.5, float("nan")], pa.float64())}), file)
statistics = pq.ParquetFile(file).metadata.row_group(0).column(0).statistics
print("bounds of the row group:", statistics.min, statistics.max)
connection = duckdb.connect()
connection.execute(f"CREATE TABLE rows AS SELECT * FROM read_parquet('{file}')")
expected = {"x <> 0.5": (1, 0), "x > 1": (1, 0), "NOT (x <= 1)": (1, 0)}
for condition, (of_table, of_file) in expected.items():
    counts = [
        connection.execute(f"SELECT count(*) FROM {source} WHERE {condition}").fetchone()[0]
        for source in ("rows", f"read_parquet('{file}')")
    ]
    print(f"{condition:14} rows of the table: {counts[0]}, of the file: {counts[1]}")
    assert counts == [of_table, of_file], "the behaviour has changed"
PYTHON
