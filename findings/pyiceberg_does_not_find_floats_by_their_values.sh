#!/usr/bin/env bash
# pyiceberg does not find a 32-bit float that is the smallest of its file, nor infinity.
#
# One would guess that a scan with a value that pyiceberg has written and read back finds its row, whatever other rows the
# file has. The bounds of a file are 32-bit numbers for a column of type float, and are compared with the 64-bit number of
# the filter: 0.1 as 32 bits is a little more, so a file whose smallest value it is is left out. Beside a smaller value it
# is found. Infinity is taken for too large for the column: nothing equals it, and everything is less, also the row that
# has it. The same filters on columns of type double are right. No error is raised.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "pyiceberg[sql-sqlite,pyarrow]==0.12.0" pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder" 2>"$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import math
import sys
from importlib.metadata import version

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, LessThan

folder = sys.argv[1]
print("pyiceberg", version("pyiceberg"), "pyarrow", pa.__version__)
catalog = SqlCatalog("rates", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/tables")
catalog.create_namespace("rates")


def count(name: str, type_: pa.DataType, values: list[float]) -> tuple[int, int, int]:
    table = catalog.create_table(f"rates.{name}", pa.schema([("rate", type_)]))
    table.append(pa.table({"rate": pa.array(values, type_)}))
    filters = (EqualTo("rate", 0.1), EqualTo("rate", math.inf), LessThan("rate", math.inf))
    found = tuple(table.scan(row_filter=each).to_arrow().num_rows for each in filters)
    print(f"{type_} {values}: {found[0]} equal to 0.1, {found[1]} equal to infinity, {found[2]} less than infinity")
    return found


assert count("doubles", pa.float64(), [0.1, math.inf]) == (1, 1, 1), "the behaviour has changed"
assert count("floats", pa.float32(), [0.1, math.inf]) == (0, 0, 2), "the behaviour has changed"
assert count("more", pa.float32(), [0.0, 0.1, math.inf]) == (1, 0, 3), "the behaviour has changed"
PYTHON
