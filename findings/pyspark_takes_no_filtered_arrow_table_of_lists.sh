#!/usr/bin/env bash
# PySpark makes a DataFrame of an Arrow table without rows, but not if a filter has left none.
#
# One would guess that createDataFrame takes each table of Arrow whose types Spark has, with any number of rows. A filter
# of pyarrow that keeps no row gives columns without a chunk. PySpark builds columns of lists, structs and maps anew from
# their chunks, and fails there for want of a type, though the column has one. With `schema.empty_table()` in its place,
# which is equal to it, the same call gives an empty DataFrame.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyspark==4.1.4 pyarrow==26.0.1 pandas==3.1.1
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import SparkSession

print("pyspark", pyspark.__version__, "pyarrow", pa.__version__)
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()


def count(table):
    try:
        return spark.createDataFrame(table).count()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


rows = pa.table({"id": [1], "tags": [["a"]]})
none = rows.filter(pc.greater(rows["id"], 1))
assert none.equals(rows.schema.empty_table()) and none["tags"].num_chunks == 0
found = {
    "one row": count(rows),
    "no rows, of the schema": count(rows.schema.empty_table()),
    "no rows, after a filter": count(none),
    "the same without lists": count(none.drop_columns(["tags"])),
}
for name, value in found.items():
    print(f"{name}: {value}")
assert [*found.values()] == [1, 0, found["no rows, after a filter"], 0], "it behaves otherwise now"
assert "empty vector and omitted type" in str(found["no rows, after a filter"]), "it behaves otherwise now"
PYTHON
