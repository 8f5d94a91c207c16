#!/usr/bin/env bash
# deltalake adds a field to the objects in a map, and then reads the table no more.
#
# One would guess that a table whose append was accepted can be read. With schema_mode="merge" deltalake adds a new field
# to the objects of a column, in structs and lists so that old rows have null there. In a map it commits the wider type
# too, and from then on its own queries, which have to read the older file in the new type, fail with a cast, and so does
# optimize.compact. DuckDB reads the same files.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q deltalake==1.6.6 pyarrow==26.0.1 duckdb==1.5.5
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from importlib.metadata import version

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

print("deltalake", version("deltalake"), "pyarrow", pa.__version__, "duckdb", duckdb.__version__)


def wrap(kind, fields):
    object_ = pa.struct([(name, pa.int64()) for name in fields])
    one = dict.fromkeys(fields, 1)
    type_, value = {
        "struct": (object_, one),
        "list": (pa.list_(object_), [one]),
        "map": (pa.map_(pa.string(), object_), [("key", one)]),
    }[kind]
    return pa.table({"column": pa.array([value], type_)})


def attempt(act):
    try:
        return act()
    except Exception as error:
        return str(error).splitlines()[0][:200]


found = {}
for kind in ("struct", "list", "map"):
    place = f"{sys.argv[1]}/{kind}"
    write_deltalake(place, wrap(kind, "a"))
    write_deltalake(place, wrap(kind, "ab"), mode="append", schema_mode="merge")
    table = DeltaTable(place)
    read = attempt(lambda: QueryBuilder().register("stored", table).execute("SELECT * FROM stored").read_all().num_rows)
    files = table.file_uris()
    found[kind] = read, duckdb.sql(f"SELECT count(*) FROM read_parquet({files}, union_by_name = true)").fetchall()[0][0]
    print(f"{kind}: rows that deltalake and DuckDB read: {found[kind]}")
compacted = attempt(lambda: DeltaTable(f"{sys.argv[1]}/map").optimize.compact())
print("compact of the map:", compacted)
assert "Cannot cast" in compacted, "it behaves otherwise now"
assert found["struct"] == found["list"] == (2, 2), "it behaves otherwise now"
assert "Cannot cast" in found["map"][0] and found["map"][1] == 2, "it behaves otherwise now"
PYTHON
