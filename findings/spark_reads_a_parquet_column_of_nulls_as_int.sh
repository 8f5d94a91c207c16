#!/usr/bin/env bash
# Spark reads a Parquet column without a value as int, and takes its file for the type of all files of a folder.
#
# One would guess that a column which pyarrow writes with the type null, a logical type of Parquet, is void in Spark, which
# has such a type, or is at least read beside a file that has texts there. Spark takes the physical type of the column, an
# int32 that no row has. A folder of two files, of which the first has no value yet in a column and the second has texts,
# cannot be read, with mergeSchema or without; pyarrow reads it as texts. pandas writes such a file for a column of None.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyspark==4.1.4 pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder" 2>"$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

folder = f"{sys.argv[1]}/days"
Path(folder).mkdir()
print("pyspark", pyspark.__version__, "pyarrow", pa.__version__)
pq.write_table(pa.table({"day": [1], "note": pa.nulls(1)}), f"{folder}/1.parquet")
pq.write_table(pa.table({"day": [2], "note": ["late"]}), f"{folder}/2.parquet")
print("in the file:", pq.ParquetFile(f"{folder}/1.parquet").schema.column(1).logical_type)
schema = pa.schema([("day", pa.int64()), ("note", pa.string())])
texts = pyarrow.dataset.dataset(folder, schema=schema).to_table().column("note").to_pylist()
print("pyarrow, both files as texts:", texts)
assert texts == [None, "late"], "the behaviour has changed"
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
type_ = dict(spark.read.parquet(f"{folder}/1.parquet").dtypes)["note"]
print("Spark, the first file:", type_)
assert type_ == "int", "the behaviour has changed"
for merge in ("false", "true"):
    try:
        rows = spark.read.option("mergeSchema", merge).parquet(folder).collect()
    except Exception as error:
        found = " ".join(str(error).split())
        print(f"Spark, both files, mergeSchema {merge}:", found[:110])
    else:
        raise SystemExit(f"the behaviour has changed: {rows}")
PYTHON
