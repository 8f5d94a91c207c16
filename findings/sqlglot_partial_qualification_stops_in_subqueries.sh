#!/usr/bin/env bash
# sqlglot's `qualify` gives columns the names of their tables. `allow_partial_qualification` lets it leave a column as it
# is where no schema tells its table; with `validate_qualify_columns=False` it does not check that all of them have one.
# One would guess that a column of unknown origin stays as it is wherever it stands, as it does in `SELECT id FROM a`.
# But in a scalar subquery, which has one table of its own, the same column raises OptimizeError, and beside UNNEST an
# array does, so that lineage of such queries cannot be followed without the schemas of all tables.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check sqlglot==30.30.0
cat >"$folder/try.py" <<'PYTHON'
import sqlglot
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.qualify import qualify

STATEMENTS = (
    "SELECT id FROM a",
    "SELECT (SELECT max(price) FROM b) AS most FROM a",
    "SELECT id, x FROM a CROSS JOIN UNNEST(items) AS t(x)",
)
print("sqlglot", sqlglot.__version__)
found = []
for text in STATEMENTS:
    statement = sqlglot.parse_one(text, dialect="trino")
    try:
        partial = {"allow_partial_qualification": True, "validate_qualify_columns": False}
        found.append(qualify(statement, dialect="trino", **partial).sql("trino"))
    except OptimizeError as error:
        found.append(f"OptimizeError: {error}")
    print(f"{text}\n    {found[-1]}")
expected = [
    'SELECT "id" AS "id" FROM "a" AS "a"',
    "OptimizeError: Cannot resolve 'price' due to missing source schemas",
    "OptimizeError: Cannot resolve 'items' due to missing source schemas",
]
raise SystemExit(0 if found == expected else "sqlglot behaves differently now")
PYTHON
"$folder/venv/bin/python" "$folder/try.py"
