#!/usr/bin/env bash
# DuckDB's read_json makes dates and times of texts that only look a little like some, and the texts are gone.
#
# One would guess that automatic detection finds ISO 8601 and leaves the rest as text, as reading every row
# (sample_size = -1) promises that what is found fits all rows. `10-11-12` becomes a date, `epoch` and `infinity` become
# times, a UUID is written in lower case, and a number with 30 digits is rounded to a double.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q duckdb==1.5.5
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import json
import sys
from pathlib import Path

import duckdb

print("duckdb", duckdb.__version__)
changed = []
for text in ("10-11-12", "epoch", "infinity", "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "12345678901234567890.1234567891"):
    file = Path(sys.argv[1]) / "rows.json"
    file.write_text(f'{{"a": {text if text[0] == "1" and "." in text else json.dumps(text)}}}\n')
    read = f"read_json('{file}', format = 'newline_delimited', sample_size = -1)"
    (row,) = duckdb.sql(f"SELECT typeof(a), a::VARCHAR FROM {read}").fetchall()
    print(f"{text} is read as {row[0]} {row[1]}")
    changed.append(row[1] != text)
assert all(changed), "the behaviour has changed"
PYTHON
