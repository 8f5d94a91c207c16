"""Statements of the differential suite, and Trino's own answers to them, which golden.json keeps."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core.data.sql.engine import ResultPage
from core.data.sql.service import Query
from core.data.sql.trino.client import TrinoClient
from core.data.sql.trino.engine import TrinoEngine
from core.data.sql.trino.values import name_type, plain_value
from core.errors import BadInput, SpindleError
from core.infra.settings import Settings
from core.infra.storage import open_storage
from pipelines.duckdb.values import convert
from pipelines.sql.column_names import make_unique
from tests.core.data.sql.differential.tables import make_tables
from tests.support.warehouse import Warehouse

SAME_CODES = {
    "unknown-function": "FUNCTION_NOT_FOUND",
    "invalid-sql": "SYNTAX_ERROR",
    "INVALID_CAST_ARGUMENT": "TYPE_MISMATCH",
}  # found before an engine
FOLDER = Path(__file__).parent
GOLDEN = FOLDER / "golden.json"
SCHEMA = "lake"
RAW_SCHEMA = "hive.spindle_golden"
REFUSED_CODES = ("unsupported-sql", "unknown-function", "query-refused", "FUNCTION_NOT_FOUND", "TYPE_MISMATCH")


@dataclass(frozen=True)
class Case:
    """One statement. `refused`: DuckDB has no equivalent, and says so."""

    name: str
    sql: str
    refused: bool

    def __str__(self) -> str:
        return self.name


def load_cases() -> list[Case]:
    return list(_iterate_cases())


def _iterate_cases() -> Iterator[Case]:
    for file in sorted((FOLDER / "statements").glob("*.sql")):
        for number, text in enumerate(file.read_text().strip().split("\n\n"), 1):
            refused = text.startswith("-- refused\n")
            yield Case(f"{file.stem}-{number}", text.removeprefix("-- refused\n").strip(), refused)


def load_golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text())


def publish_tables(warehouse: Warehouse, format_: str) -> None:
    for name, (rows, columns) in make_tables().items():
        if format_ == "iceberg":
            columns = [{**column, "type": column["type"].replace("smallint", "int")} for column in columns]
        warehouse.publish("acme", SCHEMA, name, rows, columns, format_)


def widen(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as it is over tables of Iceberg, which has no smaller integers."""
    columns = [[name, type_.replace("smallint", "integer")] for name, type_ in answer.get("columns", ())]
    return {**answer, "columns": columns} if columns else answer


def ask_all(warehouse: Warehouse, statements: Iterable[str], schema: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the answer to each statement; Trino gets four at a time, because most of its time is spent on waiting."""
    texts = list(dict.fromkeys(statements))
    with ThreadPoolExecutor(4 if warehouse.settings.trino.address else 1) as threads:
        return dict(zip(texts, threads.map(lambda sql: ask(warehouse, sql, schema), texts), strict=True))


def ask(warehouse: Warehouse, sql: str, schema: str | None = None) -> dict[str, Any]:
    query = Query(sql, schema=schema, limit=10_000)
    try:
        return describe_page(warehouse.queries.run(warehouse.caller("acme"), query).page)
    except SpindleError as error:
        return describe_error(error)


def describe_page(page: ResultPage) -> dict[str, Any]:
    return {
        "columns": [[column.name, column.type] for column in page.columns],
        "rows": [list(row.values()) for row in page.rows],
    }


def describe_error(error: SpindleError) -> dict[str, Any]:
    return {"error": error.details[0].code, "sentence": error.sentence}


def record(warehouse: Warehouse) -> dict[str, Any]:
    """Return Trino's answers, asked without Spindle in between."""
    client = _make_raw_tables(warehouse)
    answers: dict[str, Any] = {}
    for case in load_cases():
        statement = client.start("admin", _use_raw_schema(case.sql), 120)
        try:
            rows = [[convert(plain_value(value)) for value in row] for batch in statement.read() for row in batch]
            rows = json.loads(msgspec.json.encode(rows))
        except BadInput as error:
            answers[case.sql] = describe_error(error)
            continue
        columns = [[column["name"], name_type(column["typeSignature"])] for column in statement.columns]
        answers[case.sql] = {"columns": columns, "rows": rows}
    return answers


def _make_raw_tables(warehouse: Warehouse) -> TrinoClient:
    """Give Trino views of the tables under their plain names."""
    settings: Settings = warehouse.settings
    client = TrinoClient(settings.trino)
    engine = TrinoEngine(settings, open_storage(settings.storage), client)
    client.fetch(f"CREATE SCHEMA IF NOT EXISTS {RAW_SCHEMA}")
    owner = warehouse.ids["acme"]
    with warehouse.database.read() as session:
        tables = warehouse.queries.list_tables(session, warehouse.caller("acme"), None, SCHEMA)
    for table in tables:
        found = ".".join(engine.register(owner, table).identifiers)
        client.fetch(f"CREATE OR REPLACE VIEW {RAW_SCHEMA}.{table.name} SECURITY INVOKER AS SELECT * FROM {found}")
    return client


def _use_raw_schema(sql: str) -> str:
    """Qualify the tables by text alone: no parser of ours stands between the statement and Trino."""
    names = "|".join(make_tables_names())
    return re.sub(rf"(?i)\b((?:FROM|JOIN)\s+\(?)({names})\b", rf"\1{RAW_SCHEMA}.\2", _split_commas(sql, names))


def make_tables_names() -> list[str]:
    return ["region", "nation", "customer", "supplier", "partsupp", "part", "orders", "lineitem", "samples"]


def _split_commas(sql: str, names: str) -> str:
    """Qualify the tables that follow a comma in FROM."""
    before = None
    while sql != before:
        before = sql
        pattern = rf"(?i)(\bFROM\s+(?:(?!SELECT|WHERE)[\w. ])*?(?:,[\w. ]+?)*?,\s*)({names})\b(?!\.)"
        sql = re.sub(pattern, rf"\1{RAW_SCHEMA}.\2", sql)
    return sql


def find_difference(expected: dict[str, Any], found: dict[str, Any], sql: str) -> str | None:
    """Return what differs between two answers, or None."""
    if "error" in expected or "error" in found:
        codes = [SAME_CODES.get(answer.get("error", ""), answer.get("error")) for answer in (expected, found)]
        same = codes[0] == codes[1]
        return None if same else f"expected {_shorten(expected)}, found {_shorten(found)}"
    columns, own = _describe_columns(expected), _describe_columns(found)
    if columns != own:
        return f"columns: expected {columns}, found {own}"
    wanted, got = (_parse_json(answer) for answer in (expected, found))
    if "ORDER BY" not in sql.upper():
        wanted, got = sorted(wanted, key=repr), sorted(got, key=repr)
    if len(wanted) != len(got):
        return f"rows: expected {len(wanted)}, found {len(got)}"
    for one, other in zip(wanted, got, strict=True):
        if not _equal(one, other):
            return f"expected {one}, found {other}"
    return None


def _describe_columns(answer: dict[str, Any]) -> list[list[str]]:
    """Return names and types: names are unique in answers, and decimals may have room for more digits.

    The keys of an empty map have no type in Trino, and DuckDB's first one there.
    """
    names = make_unique([name.lower() for name, _ in answer["columns"]])
    types = [re.sub(r"decimal\(\d+, ", "decimal(*, ", type) for _, type in answer["columns"]]
    types = ["map()" if type in ("map(unknown, unknown)", "map(integer, integer)") else type for type in types]
    return [list(each) for each in zip(names, types, strict=True)]


def _parse_json(answer: dict[str, Any]) -> list[list[Any]]:
    """Return the rows with JSON parsed: the order of its keys has no meaning."""
    places = [position for position, (_, type) in enumerate(answer["columns"]) if type == "json"]
    rows = [list(row) for row in answer["rows"]]
    for row in rows:
        for place in places:
            row[place] = json.loads(row[place]) if isinstance(row[place], str) else row[place]
    return rows


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float) and not isinstance(other, bool):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return one == other and (isinstance(one, bool) is isinstance(other, bool))


def _shorten(answer: dict[str, Any]) -> str:
    return repr(answer)[:300]


def write_json(answers: dict[str, Any]) -> str:
    """Return the text of a golden file: a line for each statement."""
    lines = (f"{json.dumps(sql)}: {json.dumps(answer, ensure_ascii=False)}" for sql, answer in answers.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
