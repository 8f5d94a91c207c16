"""Rows of files, table stages and checks are equal on both runners."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.engine.run import Run
from pipelines.errors import NeedsSpark
from pipelines.local.engine_choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.planning.stage import TableStage
from tests.support.cases import each_case
from tests.support.runners import Runners

ROWS = """name,group,text
Lamp,a,I love it
cup,b,
Émile,a,ÿ
Zoë,,z
😀,b,\uff5e
lamp,a,I love it
Lamp,a,I love it
"""
VALUES = """
def values(row, *, number=0):
    n = int(row["n"])
    floats = [float("nan"), 0.0, -0.0, 1.5, None, float("inf")]
    f = floats[n % 6]
    return {"n": n % 7, "f": f, "fs": [f, None], "b": n % 3 == 0, "at": n}
"""
TYPED = """
from datetime import date, datetime, timezone
from typing import TypedDict

class Typed(TypedDict):
    n: int
    day: date | None
    at: datetime | None
    raw: bytes | None
    items: list[list[datetime | None]]
    ok: bool | None
    floats: list[float]

def typed(row) -> Typed:
    n = int(row["n"])
    if n == 4:
        raise ValueError("four")
    if n == 5:
        return None
    at = datetime(2026, 1, 1 + n % 3, 12, 30, 0, 123456, tzinfo=timezone.utc) if n % 4 else None
    floats = [[float("nan")], [0.0], [-0.0], [1.5]][n % 4]
    return {"n": n, "day": at and at.date(), "at": at, "raw": bytes([n % 3]), "items": [[at, None], []],
            "ok": None if n == 3 else n > 3,
            "floats": floats}
"""
NUMBERS = "n\n" + "".join(f"{number}\n" for number in range(14))


def load(folder: Path, content: str | bytes, stages: str = "", args: str = "", more: str = "") -> str:
    path = folder / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return f"pipeline:\n- {{stage: load_csv, args: [{{path: '{path}'{args}}}]}}\n{stages}{more}"


FILES = {
    "plain": "a,b\n1,2\n3,4\n",
    "carriage returns": "a,b\r\n1,2\r\n3,4\r\n",
    "old line ends": "a,b\r1,2\r3,4",
    "mixed line ends": "a,b\n1,2\r\n3,4\r5,6\n\r7,8",
    "blank lines": "\n \na,b\n\n1,2\n  \n\t\n3,4\n\n",
    "blank among one column": "a\n1\n\n \n2\n",
    "empty cells": "a,b,c\n,,\n1,,3\n,2,\n",
    "spaces": "a,b\n 1 , 2\n  ,x \n",
    "other spaces": "a,b\n\u00a01\u00a0,\u20032\nx\u2028y,z\x85\n",
    "vertical": "a,b\n1\x0b,2\x0c\n\x1c,\x1d\x1e\n",
    "non-ASCII": "näme,日本\nÉ,😀\n",
    "no line end": "a,b\n1,2",
    "header only": "a,b\n",
    "control": "a,b\n\x01,\x02\n",
    "hash": "#a,b\n#1,2\n",
    "apostrophe": "a,b\n'1','2'\n",
    "dots": "a.b,c d,e`f\n1,2,3\n",
    "null texts": "a,b\nnull,NULL\nNaN,\\N\n",
    "backslashes": 'a,b\n1\\,\\2\n"x,\\",\\\\\n\\n,"\\"\n',
    "long": "a,b\n" + "x" * 100_000 + ",y\n",
    "only separators": "a,b\n,\n,\n",
    "quotes": 'a,"b,c"\n"1,1",2\n3,"4"\n"5 6",\n,"7"\n\'8,"9,10,"\n',
    "quotes and blanks": 'a,b\n" 1",2\n"3 ",4\n" ",5\n"\t6\u00a0",7\n',
    "quotes around one column": '"a"\n"1"\n2\n"3"\n',
    "numbers as names": "1,2\n3,4\n",
}


@pytest.mark.long
@pytest.mark.parametrize("header", [True, False])
@each_case("name", FILES)
def test_a_csv_file_has_the_same_rows(runners: Runners, tmp_path: Path, name: str, header: bool) -> None:
    plan = runners.plan(load(tmp_path, FILES[name], args=f", header: {str(header).lower()}"))
    runners.assert_equal(plan)


@pytest.mark.long
@each_case(("separator", "given"), [("\t", '"\\t"'), (";", ";"), ("|", "'|'"), (" ", "' '"), ("ä", "ä")])
def test_other_separators_give_the_same_rows(runners: Runners, tmp_path: Path, separator: str, given: str) -> None:
    content = "a,b,c\n1,,3\n,,\n4,5,\n".replace(",", separator)
    for key in ("sep", "delimiter"):
        runners.assert_equal(runners.plan(load(tmp_path, content, args=f", {key}: {given}")))


@each_case(
    "content",
    [
        b"\xef\xbb\xbfa,b\n1,2\n",
        b'a,b\n"",2\n',
        b'a,b\n"1""2",2\n',
        b'a,b\n "1",2\n',
        b'a,b\n"1" ,2\n',
        b'a,b\n1,2"\n',
        b"a,b\n1\n",
        b"a,a\n1,2\n",
        b"a,A\n1,2\n",
        b"a,\n1,2\n",
        b" a,b\n1,2\n",
        b"a,_url\n1,2\n",
        b"a,b\n\xff,2\n",
        b"a,b\n\0,2\n",
        b"",
        b"\n\n",
    ],
)
def test_files_that_only_spark_reads_are_refused(runners: Runners, tmp_path: Path, content: bytes) -> None:
    plan = runners.plan(load(tmp_path, content))
    with pytest.raises(NeedsSpark):
        runners.run_locally(plan)


DECLARED = """
from typing import TypedDict

class Declared(TypedDict):
    name: str | None
    group: str | None
    text: str | None

def keep(row) -> Declared:
    return {name: row[name] for name in ("name", "group", "text")}
"""
KEEP_ERROR = "spindle: {keepColumns: [_error]}\n"
CONDITIONS = [
    "name = 'Lamp'",
    "name <> 'Lamp'",
    "name != 'Lamp'",
    "name < 'a'",
    "name >= 'É'",
    "text > 'z'",
    "text >= '\uff5e'",
    "'z' < text",
    "NAME = 'cup'",
    "`group` IS NULL",
    "`group` IS NOT NULL",
    "NOT `group` = 'a'",
    "NOT (`group` = 'a' AND text = 'z')",
    "`group` = 'b' OR text = 'z'",
    "`group` IN ('a', 'c')",
    "`group` NOT IN ('a', 'c')",
    "text IN ('')",
    "text = ''",
    "_error IS NULL",
    "name = 'Lamp ' OR name = '😀'",
    "name > '\uff5e'",
]


TRUTHS = ["n > 3", "n >= -1", "-2 < n", "n IN (1, 3, 99)", "n = 999999999999999999", "ok = true", "ok IS NULL"]
TRUTHS += ["NOT ok = true", "ok <> false OR n = 3", "n <> 3 AND NOT (ok = false)", "ok < true", "ok = false"]
AMOUNTS = """
from datetime import date
from decimal import Decimal
from typing import Annotated, TypedDict

class Amounts(TypedDict):
    n: int
    price: float | None
    exact: Annotated[Decimal, "decimal(6,2)"]
    day: date | None

def amounts(row) -> Amounts:
    n = int(row["n"])
    price = [float("nan"), 0.0, -0.0, 1.5, 100.0, -2.5, None, 0.1 + 0.2, float("inf")][n % 9]
    return {"n": n, "price": price, "exact": Decimal(n % 3), "day": date(2026, 1, 1 + n) if n % 5 else None}
"""
PRICES_COMPARED = ["price < 100", "price >= 1.5", "price = 0", "-0.5 > price", "price <> 0", "NOT price > 9.99"]
PRICES_COMPARED += ["price IN (1.5, 0)", "price = 0.3", "price <= 0.30", "price > -3"]


def write_filters(conditions: Iterable[str]) -> list[str]:
    return [f"- stage: filter\n  args:\n  - >-\n    {condition}\n" for condition in conditions]


def write_dedups(*keys: str) -> list[str]:
    return [f"- {{stage: dedup, args: [{each}]}}\n" for each in keys]


@pytest.mark.parametrize(
    ("content", "function", "source", "stages"),
    [
        (ROWS, "keep", DECLARED, write_filters(CONDITIONS)),
        (NUMBERS, "typed", TYPED, write_filters(TRUTHS)),
        (NUMBERS, "amounts", AMOUNTS, write_filters(PRICES_COMPARED)),
        (NUMBERS, "values", VALUES, write_dedups("", "f", "fs", "b", "n", "f, b")),
        (NUMBERS, "typed", TYPED, write_dedups("", "day", "at", "raw", "items", "ok", "floats")),
    ],
    ids=["filters of texts", "of numbers and truths", "of prices", "dedups of inferred columns", "of declared ones"],
)
def test_a_table_stage_keeps_the_same_rows(
    runners: Runners, spark: SparkSession, tmp_path: Path, content: str, function: str, source: str, stages: list[str]
) -> None:
    transform, functions = f"- {{stage: 'python_row_transform:{function}'}}\n", {function: source}
    with Run(runners.plan(load(tmp_path, content, transform), functions)) as run:
        rows = LocalRunner(run).collect()
    ordinals = [[number] for number in range(len(rows))]
    rows = rows.append_column("_error", pa.nulls(len(rows), pa.string())).append_column("_ordinal", [ordinals])
    frame = spark.createDataFrame(rows).cache()
    different: list[str] = []
    for text in stages:
        plan = runners.plan(load(tmp_path, content, transform + text), functions)
        assert find_spark_need(plan) is None
        stage = plan.steps[-2].stage
        assert isinstance(stage, TableStage)
        here, there = stage.apply_locally(rows, RunContext()), stage.apply(frame, RunContext()).toArrow()
        if repr(here.to_pylist()) != repr(sorted(there.to_pylist(), key=lambda row: row["_ordinal"])):
            different.append(text)
    spark.catalog.clearCache()
    assert different == []


@pytest.mark.parametrize(
    ("content", "function", "source", "stages"),
    [
        (ROWS, "keep", DECLARED, write_dedups("name, text") + write_filters(["NOT `group` = 'a' OR _error IS NULL"])),
        (NUMBERS, "values", VALUES, [*write_dedups("f"), "- {stage: limit, args: [5]}\n"]),
        (NUMBERS, "typed", TYPED, write_filters(["ok <> false OR n = 3"]) + write_dedups("at")),
    ],
    ids=["texts", "inferred", "declared"],
)
def test_a_run_of_table_stages_shows_the_same(
    runners: Runners, tmp_path: Path, content: str, function: str, source: str, stages: list[str]
) -> None:
    text = load(
        tmp_path, content, f"- {{stage: 'python_row_transform:{function}'}}\n" + "".join(stages), more=KEEP_ERROR
    )
    runners.assert_equal(runners.plan(text, {function: source}))


def test_rows_cannot_be_compared_by_maps(runners: Runners, tmp_path: Path) -> None:
    stages = "- {stage: 'python_row_transform:nest'}\n- {stage: dedup, args: [nested]}\n"
    nest = "def nest(row):\n    return {'nested': {'x': 1.5}}\n"
    failure = runners.assert_equal(runners.plan(load(tmp_path, NUMBERS, stages), {"nest": nest})).failure
    assert "rows cannot be compared by the column 'nested'" in failure[0]


FAILING = """
def odd(row):
    n = int(row["n"])
    if n == 3:
        raise ValueError("three")
    return {"n": n} if n < 5 else {"n": "many"}
"""


@pytest.mark.long
@each_case("on_error", ["row", "fail"])
@each_case("rows", [2, 14, 200])
def test_inferred_columns_and_failing_rows_are_equal(
    runners: Runners, tmp_path: Path, on_error: str, rows: int
) -> None:
    content = "n\n" + "".join(f"{number % 5 if number < 150 else number}\n" for number in range(rows))
    stages = f"- {{stage: 'python_row_transform:odd', args: {{onError: {on_error}}}}}\n"
    text = load(tmp_path, content, stages, more="spindle: {keepColumns: [_error]}\n")
    runners.assert_equal(runners.plan(text, {"odd": FAILING}))


MONEY = """
from decimal import Decimal
from typing import Annotated, TypedDict

class Money(TypedDict):
    price: Annotated[Decimal, "decimal(10,2)"]
    third: Decimal | None
    parts: list[Decimal]

def declared(row) -> Money:
    return {"price": Decimal(row["n"]), "third": Decimal(1) / 3, "parts": [Decimal(row["n"]), 2]}

def inferred(row):
    return {"price": Decimal(row["n"]), "total": Decimal("0.1") * 3, "count": 1 if row["n"] == "10" else Decimal("2.5")}
"""
PRICES = "n\n12.50\n10\n123456789012345678.01\n0.005\nNaN\n"


@pytest.mark.long
def test_declared_decimals_stay_exact(runners: Runners, tmp_path: Path) -> None:
    text = load(tmp_path, PRICES, "- {stage: 'python_row_transform:declared'}\n", more=KEEP_ERROR)
    found = runners.assert_equal(runners.plan(text, {"declared": MONEY}))
    assert found.columns[:2] == (("price", "decimal(10,2)"), ("third", "decimal(38,18)"))
    assert [row.partition(", 'third'")[0] for row in found.ordered] == [
        "{'price': Decimal('12.50')",
        "{'price': Decimal('10.00')",
        *["{'price': None"] * 3,
    ]
    assert "'third': Decimal('0.333333333333333333'), 'parts': [Decimal('12.5" in found.ordered[0]
    assert [row.partition("'_error': ")[2] for row in found.ordered[2:]] == [
        "\"declared: the column 'price' is too large for decimal(10,2)\"}",
        "\"declared: the column 'price' has more than 2 digits after the point: round it, or declare more of them\"}",
        "\"declared: the column 'price' is the Decimal NaN, which is no number\"}",
    ]


def test_inferred_decimals_stay_exact(runners: Runners, tmp_path: Path) -> None:
    text = load(tmp_path, PRICES, "- {stage: 'python_row_transform:inferred'}\n", more=KEEP_ERROR)
    found = runners.assert_equal(runners.plan(text, {"inferred": MONEY}))
    assert found.columns[:3] == (("price", "decimal(38,3)"), ("total", "decimal(38,1)"), ("count", "decimal(38,1)"))
    assert found.ordered[1].startswith("{'price': Decimal('10.000'), 'total': Decimal('0.3'), 'count': Decimal('1.0')")
    assert "Decimal('123456789012345678.010')" in found.ordered[2]
    assert "the column 'price' is the Decimal NaN" in found.ordered[4]


CHECKS = [
    "row_count, min: 3",
    "row_count, max: 3",
    "not_null, columns: [name]",
    "not_null, columns: [group]",
    "not_null, columns: [group, text]",
    "unique, columns: [name, group]",
    "unique, columns: [name]",
    "unique, columns: [group, text]",
    "accepted_values, column: group, values: [a, b]",
    "accepted_values, column: name, values: [a, b]",
    "accepted_values, column: text, values: ['I love it', z]",
    "filled, column: text, min: 0.9",
    "filled, column: text, min: 0.5",
]
NUMBERS_CHECKED = [
    "not_null, columns: [price]",
    "filled, column: price, min: 0.9",
    "unique, columns: [exact]",
    "unique, columns: [price]",
    "not_null, columns: [n, exact]",
    "unique, columns: [n, day]",
    "filled, column: day",
]


@pytest.mark.parametrize(
    ("content", "function", "source", "checks", "severity"),
    [
        (ROWS, "keep", DECLARED, CHECKS, "error"),
        (ROWS, "keep", DECLARED, CHECKS, "warn"),
        ("name,group,text\n", "keep", DECLARED, CHECKS, "warn"),
        ("name,group,text\n,[], \n\t,{},\u00a0\n", "keep", DECLARED, CHECKS, "warn"),
        (NUMBERS, "amounts", AMOUNTS, NUMBERS_CHECKED, "warn"),
    ],
    ids=["texts, as errors", "texts", "no rows", "rows of little", "numbers"],
)
def test_checks_are_equal(
    runners: Runners, tmp_path: Path, content: str, function: str, source: str, checks: list[str], severity: str
) -> None:
    more = "checks:\n" + "".join(f"- {{check: {each}, severity: {severity}}}\n" for each in checks)
    text = load(tmp_path, content, f"- {{stage: 'python_row_transform:{function}'}}\n", more=more)
    shown = runners.assert_equal(runners.plan(text, {function: source}))
    assert len(shown.checks) == len(checks)
