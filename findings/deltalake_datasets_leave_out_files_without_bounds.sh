#!/usr/bin/env bash
# A filter on deltalake's dataset for pyarrow leaves out files whose bounds are unknown.
#
# One would guess that a file without a smallest and largest value of a column in the log is read, since any value may be
# in it: the format makes statistics optional for each file. deltalake gives pyarrow the bounds null, no comparison with
# null is true, and the file is left out without a word. So a filter finds no row of a column whose only number is
# infinity, which JSON cannot hold, nor any row of a column that was written without statistics, an option of deltalake's
# own writer. deltalake's own queries find the rows.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q deltalake==1.6.6 pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder/rates" <<'PYTHON'
import math
import sys
from importlib.metadata import version

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import ColumnProperties, DeltaTable, QueryBuilder, WriterProperties, write_deltalake

folder = sys.argv[1]
print("deltalake", version("deltalake"), "pyarrow", pa.__version__)
without = WriterProperties(column_properties={"plain": ColumnProperties(statistics_enabled="NONE")})
write_deltalake(folder, pa.table({"rate": [math.inf], "plain": [7]}), writer_properties=without)
table = DeltaTable(folder)
rows, engine = table.to_pyarrow_dataset(), QueryBuilder().register("rates", table)
print("in the log:", pa.table(table.get_add_actions(flatten=True)).select(["min.rate", "min.plain"]).to_pylist())
(fragment,) = rows.get_fragments()
print("pyarrow is told:", fragment.partition_expression)
for column, value in (("rate", 0.5), ("plain", 0)):
    of_dataset = rows.to_table(filter=pc.field(column) > value).num_rows
    of_query = pa.table(engine.execute(f"select {column} from rates where {column} > {value}").read_all()).num_rows
    print(f"{column} > {value}: {of_dataset} rows of the dataset, {of_query} of the query")
    assert (of_dataset, of_query) == (0, 1), "the behaviour has changed"
PYTHON
