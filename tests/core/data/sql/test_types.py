"""How values of every type arrive in an answer."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from core.data.sql.service import Query
from tests.support.warehouse import Warehouse

BIG = 2**60

# column, Arrow type, Spark's name, stored values, values of the answer, Trino's name
TYPES: list[tuple[str, pa.DataType, str, list[Any], list[Any], str]] = [
    ("flag", pa.bool_(), "boolean", [True, None], [True, None], "boolean"),
    ("small", pa.int32(), "int", [7, None], [7, None], "integer"),
    ("big", pa.int64(), "bigint", [BIG, -1], [BIG, -1], "bigint"),
    ("real", pa.float64(), "double", [float("nan"), float("-inf")], ["NaN", "-Infinity"], "double"),
    ("amount", pa.decimal128(10, 2), "decimal(10,2)", [Decimal("19.99"), None], [19.99, None], "decimal(10, 2)"),
    ("text", pa.string(), "string", ["ünï ☃ \u0000 'q'", ""], ["ünï ☃ \u0000 'q'", ""], "varchar"),
    ("bytes", pa.binary(), "binary", [b"\x00\xff", None], ["AP8=", None], "varbinary"),
    ("day", pa.date32(), "date", [date(2026, 1, 31), None], ["2026-01-31", None], "date"),
    (
        "moment", pa.timestamp("us", tz="UTC"), "timestamp", [datetime(2026, 1, 31, 23, 59, 59, 500000, UTC), None],
        ["2026-01-31T23:59:59.500000Z", None], "timestamp with time zone",
    ),
    (
        "wall", pa.timestamp("us"), "timestamp_ntz", [datetime.fromisoformat("2026-01-31T12:00"), None],
        ["2026-01-31T12:00:00", None], "timestamp",
    ),
    ("clock", pa.time64("us"), "string", [time(12, 30), None], ["12:30:00", None], "varchar"),
    ("list", pa.list_(pa.float64()), "array<double>", [[1.5, float("nan")], []], [[1.5, "NaN"], []], "array(double)"),
    (
        "row", pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}), "struct<a:bigint,b:array<string>>",
        [{"a": 1, "b": ["x"]}, None], [{"a": 1, "b": ["x"]}, None], "row(a bigint, b array(varchar))",
    ),
    (
        "attrs", pa.map_(pa.string(), pa.string()), "map<string,string>", [[("href", "/a")], None],
        [{"href": "/a"}, None], "map(varchar, varchar)",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def typed(busy_warehouse: Warehouse) -> Warehouse:
    rows = pa.table({name: pa.array(values, kind) for name, kind, _, values, _, _ in TYPES})
    columns = [{"name": name, "type": spark} for name, _, spark, *_ in TYPES]
    busy_warehouse.publish("acme", "shop", "typed", rows, columns)
    busy_warehouse.publish("acme", "shop", "typed_empty", rows.slice(0, 0), columns)
    return busy_warehouse


@pytest.mark.long
def test_values_of_every_type_arrive_as_json(typed: Warehouse):
    cases = [
        case for case in TYPES if case[0] != "clock" or typed.settings.trino.address is None
    ]  # Trino reads no TIME
    names = ", ".join(f'"{name}"' for name, *_ in cases)
    rows = typed.rows(f"SELECT {names} FROM typed ORDER BY small")
    assert rows == [{name: answer[position] for name, *_, answer, _ in cases} for position in range(2)]
    described = {row["Column"]: row["Type"] for row in typed.rows("DESCRIBE typed")}
    assert described == {name: trino for name, *_, trino in TYPES}


def test_a_table_without_rows_has_its_columns_and_types(typed: Warehouse):
    assert typed.rows("SELECT * FROM typed_empty") == []
    assert typed.rows("SELECT count(big) AS n, sum(amount) AS s, max(day) AS d FROM typed_empty") == [
        {"n": 0, "s": None, "d": None}
    ]
    assert typed.rows("SELECT text FROM typed_empty UNION ALL SELECT text FROM typed WHERE small = 7") != []


def test_big_numbers_are_strings_when_asked_for(typed: Warehouse):
    sql = "SELECT small, big, amount, ARRAY[big] AS nested FROM typed WHERE small = 7"
    (row,) = typed.rows(sql, exact_numbers=True)
    assert row == {"small": 7, "big": str(BIG), "amount": "19.99", "nested": [str(BIG)]}


def test_decimals_keep_all_digits_and_reals_have_no_more_than_they_had(typed: Warehouse):
    money = "CAST('12345678901234567.89' AS decimal(19,2))"
    sql = f"""
        SELECT {money} AS amount, CAST('0.0000000' AS decimal(8,7)) AS zero, REAL '0.1' AS small,
            CAST(ROW({money}, REAL '0.1') AS ROW(a decimal(19,2), b real)) AS pair,
            MAP(ARRAY[1], ARRAY[CAST('1.50' AS decimal(3,2))]) AS prices,
            infinity() AS most, -infinity() AS least, nan() AS none
    """
    for exact, amount, price in ((False, "12345678901234567.89", "1.50"), (True, '"12345678901234567.89"', '"1.50"')):
        text = typed.queries.run(typed.caller("acme"), Query(sql, exact_numbers=exact)).page.json.decode()
        assert f'"amount":{amount},' in text
        assert f'"small":0.1,"pair":{{"a":{amount},"b":0.1}},"prices":{{"1":{price}}}' in text
        assert '"most":"Infinity","least":"-Infinity","none":"NaN"' in text
        assert ('"zero":"0.0000000"' if exact else '"zero":0.0000000') in text


def test_all_values_of_a_column_of_big_numbers_are_text(typed: Warehouse):
    rows = typed.rows(
        "SELECT big, CAST(1 AS integer) AS small, count(*) AS n FROM typed GROUP BY 1", exact_numbers=True
    )
    assert sorted(row["big"] for row in rows) == ["-1", str(BIG)]
    assert {(row["small"], row["n"]) for row in rows} == {(1, "1")}


COMPUTED = [
    ("SELECT from_unixtime(0) AS x", "1970-01-01T00:00:00Z"),
    ("SELECT TIMESTAMP '2026-02-28 00:00:00' + INTERVAL '1' DAY AS x", "2026-03-01T00:00:00"),
    ("SELECT 10 / 4 AS x", 2),
    ("SELECT json_extract_scalar('{\"a\": \"b\"}', '$.a') AS x", "b"),
    ("SELECT try_cast('x' AS integer) AS x", None),
    ("SELECT if(1 = 1, 'yes', 'no') AS x", "yes"),
    ("SELECT transform(ARRAY[1, 2], v -> v * 2) AS x", [2, 4]),
    ("SELECT split('a,b', ',')[1] AS x", "a"),
    ("SELECT row_number() OVER (ORDER BY 1) AS x", 1),
    ("SELECT cast(uuid() AS varchar) = '' AS x", False),
    ("SELECT regexp_like('abc', 'b.') AS x", True),
    ("SELECT date_format(TIMESTAMP '2026-01-02 03:04:05', '%Y-%m') AS x", "2026-01"),
    ("SELECT -7 / 2 AS x", -3),
    ("SELECT 10e0 / 4 AS x", 2.5),
    ("SELECT INTERVAL '90' SECOND AS x", "PT90S"),
]


@pytest.mark.long
def test_computed_values_arrive_as_json(warehouse: Warehouse):
    assert {sql: warehouse.answer(sql) for sql, _ in COMPUTED} == {sql: [{"x": value}] for sql, value in COMPUTED}
