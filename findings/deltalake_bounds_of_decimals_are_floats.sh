#!/usr/bin/env bash
# deltalake does not find the row of a decimal that it has just written.
#
# One would guess that a filter on a table of one row finds that row by its own value. deltalake writes the smallest and
# largest value of a file to the log as floating point numbers, decimals too, which have up to 38 digits where a float has
# 15 to 17, and widens neither. Where an amount has more digits, as in a ledger of type decimal(38, 18), the bounds are
# beside the value, and readers leave the file out without a word: the dataset for pyarrow, and deltalake's own queries.
# Without the filter the row is there with all of its digits.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q deltalake==1.6.6 pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder/ledger" <<'PYTHON'
import json
import sys
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

folder, type_ = sys.argv[1], pa.decimal128(38, 18)
print("deltalake", version("deltalake"), "pyarrow", pa.__version__)
amount = Decimal("9007199254740993.000000000000000001")
write_deltalake(folder, pa.table({"amount": pa.array([amount], type_)}))
log = Path(f"{folder}/_delta_log/00000000000000000000.json").read_text().splitlines()
stats = next(json.loads(line)["add"]["stats"] for line in log if '"add"' in line)
print("in the log:", stats)
table = DeltaTable(folder)
rows = table.to_pyarrow_dataset()
engine = QueryBuilder().register("ledger", table)
asked = f"select amount from ledger where amount = arrow_cast('{amount}', 'Decimal128(38, 18)')"
found = {
    "all rows": rows.to_table()["amount"].to_pylist(),
    "pyarrow, equal": rows.to_table(filter=pc.field("amount") == pa.scalar(amount, type_))["amount"].to_pylist(),
    "deltalake's query, equal": pa.table(engine.execute(asked).read_all())["amount"].to_pylist(),
}
for name, values in found.items():
    print(f"{name}: {values}")
assert [*found.values()] == [[amount], [], []], "the behaviour has changed"
PYTHON
