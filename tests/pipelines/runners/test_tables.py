"""Rows of files, table stages and checks are equal on both runners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from pipelines.errors import NeedsSpark
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
    return {"n": n, "f": f, "fs": [f, None], "nested": {"x": f, "t": str(n % 2)}, "b": n % 3 == 0, "t": None}
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


def mark_long(values: Iterable[str]) -> Iterator[ParameterSet]:
    return (pytest.param(value, marks=pytest.mark.long) for value in values)


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
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("header", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_csv_file_has_the_same_rows(runners: Runners, tmp_path: Path, name: str, header: bool) -> None:
    plan = runners.plan(load(tmp_path, FILES[name], args=f", header: {str(header).lower()}"))
    runners.assert_equal(plan)


@pytest.mark.long
@pytest.mark.parametrize(("separator", "given"), [("\t", '"\\t"'), (";", ";"), ("|", "'|'"), (" ", "' '"), ("ä", "ä")])
def test_other_separators_give_the_same_rows(runners: Runners, tmp_path: Path, separator: str, given: str) -> None:
    content = "a,b,c\n1,,3\n,,\n4,5,\n".replace(",", separator)
    for key in ("sep", "delimiter"):
        runners.assert_equal(runners.plan(load(tmp_path, content, args=f", {key}: {given}")))


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfa,b\n1,2\n",
        b'a,b\n"",2\n',
        b'a,b\n"1""2",2\n',
        b'a,b\n "1",2\n',
        b'a,b\n"1" ,2\n',
        b'a,b\n"1\n2",2\n',
        b'a,b\n1,2"\n',
        b"a,b\n1\n",
        b"a,b\n1,2,3\n",
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
KEEP = "- {stage: 'python_row_transform:keep'}\n"
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


@pytest.mark.long
@pytest.mark.parametrize("condition", [*CONDITIONS[:6], *mark_long(CONDITIONS[6:])])
def test_filters_keep_the_same_rows(runners: Runners, tmp_path: Path, condition: str) -> None:
    stage = f"- stage: filter\n  args:\n  - >-\n    {condition}\n"
    plan = runners.plan(
        load(tmp_path, ROWS, f"{KEEP}- {{stage: dedup, args: [name, text]}}\n{stage}"), {"keep": DECLARED}
    )
    runners.assert_equal(plan, orders=False)


TRUTHS = ["n > 3", "n >= -1", "-2 < n", "n IN (1, 3, 99)", "n = 999999999999999999", "ok = true", "ok IS NULL"]
TRUTHS += ["NOT ok = true", "ok <> false OR n = 3", "n <> 3 AND NOT (ok = false)", "ok < true", "ok = false"]


@pytest.mark.parametrize("condition", [*TRUTHS[:4], *mark_long(TRUTHS[4:])])
def test_filters_of_numbers_and_truth_values_keep_the_same_rows(
    runners: Runners, tmp_path: Path, condition: str
) -> None:
    stages = f"- {{stage: 'python_row_transform:typed'}}\n- {{stage: filter, args: ['{condition}']}}\n"
    plan = runners.plan(load(tmp_path, NUMBERS, stages), {"typed": TYPED})
    runners.assert_equal(plan, orders=False)


@pytest.mark.parametrize("keys", ["", "f", "fs", "nested", "b", "t", "n", "f, b"])
@pytest.mark.parametrize("more", ["", pytest.param("- {stage: limit, args: [5]}\n", marks=pytest.mark.long)])
def test_dedup_of_inferred_columns_keeps_the_same_rows(runners: Runners, tmp_path: Path, keys: str, more: str) -> None:
    stages = "- {stage: 'python_row_transform:values'}\n" + f"- {{stage: dedup, args: [{keys}]}}\n" + more
    runners.assert_equal(runners.plan(load(tmp_path, NUMBERS, stages), {"values": VALUES.replace(', "t": None}', "}")}))


@pytest.mark.long
@pytest.mark.parametrize("keys", ["", "day", "at", "raw", "items", "ok", "floats"])
def test_dedup_of_declared_columns_keeps_the_same_rows(runners: Runners, tmp_path: Path, keys: str) -> None:
    stages = "- {stage: 'python_row_transform:typed'}\n" + f"- {{stage: dedup, args: [{keys}]}}\n"
    options = "spindle: {keepColumns: [_error]}\n"
    runners.assert_equal(runners.plan(load(tmp_path, NUMBERS, stages, more=options), {"typed": TYPED}))


FAILING = """
def odd(row):
    n = int(row["n"])
    if n == 3:
        raise ValueError("three")
    return {"n": n} if n < 5 else {"n": "many"}
"""


@pytest.mark.long
@pytest.mark.parametrize("on_error", ["row", "fail"])
@pytest.mark.parametrize("rows", [2, 14, 200])
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
    "not_null, columns: [group, text], severity: warn",
    "unique, columns: [name, group]",
    "unique, columns: [name], severity: warn",
    "unique, columns: [group, text], severity: warn",
    "accepted_values, column: group, values: [a, b]",
    "accepted_values, column: name, values: [a, b], severity: warn",
    "accepted_values, column: text, values: ['I love it', z], severity: warn",
    "filled, column: text, min: 0.9",
    "filled, column: text, min: 0.5",
]


@pytest.mark.parametrize("check", [*CHECKS[:2], *mark_long(CHECKS[2:])])
@pytest.mark.parametrize("rows", [ROWS, "name,group,text\n", "name,group,text\n,[], \n\t,{},\u00a0\n"])
def test_checks_are_equal(runners: Runners, tmp_path: Path, check: str, rows: str) -> None:
    text = load(tmp_path, rows, KEEP, more=f"checks:\n- {{check: {check}}}\n")
    runners.assert_equal(runners.plan(text, {"keep": DECLARED}), orders=False)


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
PRICES_COMPARED = ["price < 100", "price >= 1.5", "price = 0", "-0.5 > price"]
PRICES_COMPARED += ["price <> 0", "NOT price > 9.99", "price IN (1.5, 0)", "price = 0.3", "price <= 0.30", "price > -3"]
NUMBERS_CHECKED = ["not_null, columns: [price]", "filled, column: price, min: 0.9", "unique, columns: [exact]"]
NUMBERS_CHECKED += [
    "unique, columns: [price]",
    "not_null, columns: [n, exact]",
    "unique, columns: [n, day]",
    "filled, column: day",
]


@pytest.mark.parametrize("condition", [*PRICES_COMPARED[:4], *mark_long(PRICES_COMPARED[4:])])
def test_filters_of_prices_keep_the_same_rows(runners: Runners, tmp_path: Path, condition: str) -> None:
    stages = f"- {{stage: 'python_row_transform:amounts'}}\n- {{stage: filter, args: ['{condition}']}}\n"
    runners.assert_equal(runners.plan(load(tmp_path, NUMBERS, stages), {"amounts": AMOUNTS}), orders=False)


@pytest.mark.parametrize("check", [*NUMBERS_CHECKED[:4], *mark_long(NUMBERS_CHECKED[4:])])
def test_checks_of_numbers_are_equal(runners: Runners, tmp_path: Path, check: str) -> None:
    stages = "- {stage: 'python_row_transform:amounts'}\n"
    text = load(tmp_path, NUMBERS, stages, more=f"checks:\n- {{check: {check}}}\n")
    runners.assert_equal(runners.plan(text, {"amounts": AMOUNTS}), orders=False)
