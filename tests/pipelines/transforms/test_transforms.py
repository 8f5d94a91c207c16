"""python_row_transform on both runners: rows, arguments, schemas, errors and limits of users' functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest

from pipelines.engine.run import Run
from pipelines.errors import PipelineError, RunError
from pipelines.language.json_values import list_records
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.spark.dataframes import to_records
from pipelines.transforms.sandbox import Limits
from pipelines.transforms.transform import Transforms
from tests.support.pipelines import TITLE, Make, crawl, load_table, make_context
from tests.support.site import Site

Rows = list[dict[str, Any]]
RunWith = Callable[..., Rows]

CLEAN = """
import re
from typing import TypedDict

class Product(TypedDict):
    name: str
    price: float | None
    tags: list[str]

def clean(row, *, currency="£") -> Product:
    digits = re.sub(r"[^0-9.]", "", row["price"])
    return {"name": row["name"].title(), "price": float(digits) if digits else None, "tags": [currency]}
"""


@pytest.fixture
def run(make: Make) -> RunWith:
    """Runs a text with these row transforms; `counted` takes the errors counted by step."""

    def run(text: str, seconds: float = 10, counted: dict[str, int] | None = None, **own: Any) -> Rows:
        plan = Pipeline.from_yaml(text).plan(transforms=Transforms(own, Limits(seconds)))
        with Run(plan, make_context(plan)) as one:
            runner = make(one)
            if isinstance(runner, LocalRunner):
                found = list_records(runner.collect())
            else:
                found = to_records(runner.collect_ordered())
            if counted is not None:
                counted.update({key: each.errors for key, each in one.get_counts().items() if each.errors})
        return found

    return run


@pytest.fixture
def csv(tmp_path: Path) -> str:
    return load_table(tmp_path, "name,price\nlamp,£2.50\ncup,free\nbowl,£1\n", "")


def test_a_function_gives_the_columns_that_it_declares(run: RunWith, csv: str) -> None:
    text = csv + "- {stage: Python_Row_Transform:CLEAN, args: {currency: $}}\n"
    assert run(text, clean=CLEAN) == [
        {"name": "Lamp", "price": 2.5, "tags": ["$"]},
        {"name": "Cup", "price": None, "tags": ["$"]},
        {"name": "Bowl", "price": 1.0, "tags": ["$"]},
    ]


def test_none_drops_a_row_and_columns_are_taken_from_the_first_rows(run: RunWith, csv: str) -> None:
    source = "def keep(row, least=0):\n  n = len(row['name'])\n  return {'n': n, **row} if n > least else None\n"
    text = csv + "- {stage: 'python_row_transform:keep', args: [{least: 3}]}\n- {stage: filter, args: ['n = 4']}\n"
    assert run(text, keep=source) == [
        {"n": 4, "name": "lamp", "price": "£2.50"},
        {"n": 4, "name": "bowl", "price": "£1"},
    ]


def test_a_row_that_raises_keeps_its_place_as_an_error_row(run: RunWith, csv: str) -> None:
    text = csv + "- {stage: 'python_row_transform:half'}\nspindle: {keepColumns: [_error]}\n"
    source = "def half(row):\n  return {'name': row['name'], 'half': float(row['price'][1:]) / 2}\n"
    counted: dict[str, int] = {}
    assert run(text, counted=counted, half=source) == [
        {"name": "lamp", "half": 1.25, "_error": None},
        {"name": "cup", "half": None, "_error": "half: line 2: ValueError: could not convert string to float: 'ree'"},
        {"name": "bowl", "half": 0.5, "_error": None},
    ]
    assert counted == {"s02_python_row_transform_half": 1}


def test_a_row_that_raises_ends_the_run_where_it_is_asked_to(run: RunWith, csv: str) -> None:
    told = "line 3: python_row_transform:half: line 2: ValueError: could not convert string to float: 'ree'"
    with pytest.raises(RunError, match=f"^{told}$"):
        run(
            csv + "- {stage: 'python_row_transform:half', args: {onError: fail}}\n",
            half="def half(row) -> {'half': float}:\n  return {'half': float(row['price'][1:])}\n",
        )


def test_a_value_of_another_type_than_declared_is_an_error_row(run: RunWith, csv: str) -> None:
    text = csv + "- {stage: 'python_row_transform:n'}\nspindle: {keepColumns: [_error]}\n"
    source = "def n(row) -> {'n': int}:\n  return {'n': len(row['name']) if row['name'] != 'cup' else '3'}\n"
    assert run(text, n=source) == [
        {"n": 4, "_error": None},
        {"n": None, "_error": "n: the column 'n' is text, not a whole number"},
        {"n": 4, "_error": None},
    ]


@pytest.mark.parametrize("declared", ["", " -> {'name': str, 'n': int, 'tags': dict[str, int], 'half': float}"])
def test_a_row_whose_function_raises_keeps_its_values(run: RunWith, csv: str, declared: str) -> None:
    query = "SELECT name, length(name) AS n, map(ARRAY[name], ARRAY[1]) AS tags FROM rows"
    source = f"def half(row){declared}:\n  assert row['n'] > 3\n  return {{**row, 'half': row['n'] / 2}}\n"
    stages = (
        f"- {{stage: sql_query, args: ['{query}', {{dialect: trino}}]}}\n- {{stage: 'python_row_transform:half'}}\n"
    )
    assert run(csv + stages + "spindle: {keepColumns: [_error]}\n", half=source)[:2] == [
        {"name": "lamp", "n": 4, "tags": {"lamp": 1}, "half": 2.0, "_error": None},
        {"name": "cup", "n": 3, "tags": {"cup": 1}, "half": None, "_error": "half: line 2: AssertionError"},
    ]


def test_a_row_with_an_undeclared_column_keeps_its_values(run: RunWith, csv: str) -> None:
    source = "def f(row) -> {'first': str}:\n  return {'first': row['name'][0], 'last': row['name'][-1]}\n"
    text = csv + "- {stage: 'python_row_transform:f'}\nspindle: {keepColumns: [_error]}\n"
    error = "f: there is no column 'last' among its columns first"
    assert run(text, f=source)[0] == {"first": "l", "_error": error}


def test_the_same_function_twice_keeps_order_and_errors_row_by_row(run: RunWith, tmp_path: Path) -> None:
    source = "def add(row) -> {'n': int}:\n  n = int(row['n']) + 1\n  assert n != 202\n  return {'n': n}\n"
    stage = "- {stage: 'python_row_transform:add'}\n"
    text = load_table(tmp_path, "n\n" + "".join(f"{n}\n" for n in range(300)), stage * 2)
    counted: dict[str, int] = {}
    rows = run(text + "spindle: {keepColumns: [_error]}\n", counted=counted, add=source)
    assert [row["n"] for row in rows if row["_error"] is None] == [n + 2 for n in range(300) if n not in (200, 201)]
    assert {n for n, row in enumerate(rows) if row["_error"] == "add: line 3: AssertionError"} == {200, 201}
    assert sum(counted.values()) == 2


def test_later_rows_are_held_to_the_columns_of_the_first(run: RunWith, tmp_path: Path) -> None:
    source = """
def f(row):
  n = int(row["n"])
  return {"n": "many"} if n == 900 else {"n": n, "x": 1} if n == 950 else {"n": n}
"""
    text = load_table(tmp_path, "n\n" + "".join(f"{n}\n" for n in range(1000)), "- {stage: 'python_row_transform:f'}\n")
    rows = run(text + "spindle: {keepColumns: [_error]}\n", f=source)
    assert [row for row in rows if row["_error"]] == [
        {"n": None, "_error": "f: the column 'n' is text, not a whole number, as the first 100 rows have them"},
        {"n": 950, "_error": "f: there is no column 'x' among its columns n, as the first 100 rows have them"},
    ]
    assert len(rows) == 1000


def test_a_number_too_large_for_its_column_is_an_error_of_the_row(run: RunWith, csv: str) -> None:
    text = csv + "- {stage: 'python_row_transform:f'}\nspindle: {keepColumns: [_error]}\n"
    rows = run(text, f="def f(row) -> {'n': float}:\n  return {'n': 10 ** 400 if row['name'] == 'cup' else 1}\n")
    told = "f: the column 'n' is a number too large for float"
    assert rows == [{"n": 1.0, "_error": None}, {"n": None, "_error": told}, {"n": 1.0, "_error": None}]


ODD = """
from datetime import datetime, timedelta, timezone
from decimal import Decimal

def f(row){declared}:
  east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
  odd = {{
    "snan": {{"n": Decimal("sNaN"), "t": None}},
    "nan": {{"n": Decimal("NaN"), "t": None}},
    "early": {{"n": 1.5, "t": datetime.min.replace(tzinfo=east)}},
    "late": {{"n": 1.5, "t": datetime.max.replace(tzinfo=west)}},
    "deep": {{"n": 1.5, "t": None, "deep": eval("[" * 80 + "]" * 80)}},
  }}
  return odd.get(row["name"], {{"n": 1.5, "t": datetime(2026, 1, 2, tzinfo=east)}})
"""


@pytest.mark.parametrize("declared", ["", " -> {'n': float, 't': datetime}"])
def test_a_value_that_no_column_holds_costs_its_row(run: RunWith, tmp_path: Path, declared: str) -> None:
    text = load_table(
        tmp_path, "name\nlamp\nsnan\nnan\nearly\nlate\ndeep\ncup\n", "- {stage: 'python_row_transform:f'}\n"
    )
    rows = run(text + "spindle: {keepColumns: [_error]}\n", f=ODD.format(declared=declared))
    assert [row["n"] for row in rows] == [1.5, None, None, 1.5, 1.5, None, 1.5]
    assert [(row["_error"] or "").split(", as")[0] for row in rows] == [
        "",
        "f: the column 'n' is a signaling NaN, which is no number",
        "",
        "f: the column 't' is a datetime that in UTC is not of the years 1 to 9999",
        "f: the column 't' is a datetime that in UTC is not of the years 1 to 9999",
        "f: it gave no answer that could be read",
        "",
    ]
    assert [row["t"] for row in rows][1:-1] == [None] * 5


@pytest.mark.parametrize("declared", [False, True])
def test_values_of_own_functions_must_fit_their_columns(run: RunWith, tmp_path: Path, declared: bool) -> None:
    (tmp_path / "n.csv").write_text("name\nlamp\ncircle\nnumber\nobject\nset\nkey\ndigits\ncup\n")

    class Named(TypedDict):
        name: str
        tags: list[int]

    def odd(row: dict[str, Any]) -> Any:
        circle: list[Any] = []
        circle.append(circle)
        rows: dict[str, dict[Any, Any]] = {
            "circle": {"name": "circle", "tags": circle},
            "number": {1: 2},
            "object": {"name": object()},
            "set": {"name": "set", "tags": {1}},
            "key": {"name": "key", "tags": {1: 2}},
            "digits": {"name": "digits", "tags": [10**5000]},
        }
        return rows.get(row["name"], {"name": row["name"], "tags": (1, 2)})

    odd.__annotations__["return"] = Named if declared else Any
    text = f"pipeline:\n- {{stage: load_csv, args: ['{tmp_path}/n.csv']}}\n- {{stage: 'python_row_transform:odd'}}\n"
    rows = run(text + "spindle: {keepColumns: [_error]}\n", odd=odd)
    assert [row["tags"] for row in rows] == [[1, 2], None, None, None, [1], None, None, [1, 2]]
    failed = [str(row["_error"]).partition(":")[2].strip().partition(" ")[0] for row in rows if row["_error"]]
    assert failed == ["RecursionError:", "TypeError:", "TypeError:", "TypeError:", "ValueError:"]


def test_a_page_stays_with_the_row_and_links_are_followed_after_a_transform(run: RunWith, site: Site) -> None:
    items = "<li class=product><a href=/lamp>Lamp</a></li><li class=product><a href=/cup>Cup</a></li>"
    shop = site.serve({"/": items, "/lamp": "<h1>The lamp</h1>", "/cup": "<h1>The cup</h1>"})
    select = "{stage: flatSelect, args: [li.product, {selector: a, as: name}]}"
    stages = select, "{stage: 'python_row_transform:upper'}", "{stage: wgetJoin, args: [a]}", TITLE
    source = "def upper(row):\n  return {'name': row['name'].upper(), 'from': row['_url'][-1]}\n"
    assert run(crawl(f"{shop}/", *stages), upper=source) == [
        {"name": "LAMP", "from": "/", "title": "The lamp"},
        {"name": "CUP", "from": "/", "title": "The cup"},
    ]


@pytest.mark.long
def test_open_columns_travel_through_an_explore(run: RunWith, site: Site) -> None:
    shop = site.serve({"/": "<a href=/2>2</a>", "/2": "<a href=/3>3</a>", "/3": "x"})
    stages = "{stage: 'python_row_transform:tag'}", "{stage: wgetExplore, args: [a, 2]}"
    text = crawl(f"{shop}/", *stages, "{stage: extract, args: [{selector: body, as: text}]}")
    rows = run(text, tag="def tag(row):\n  return {'tag': {'a': 1}, 'at': row['_fetchedAt'].year > 2000}\n")
    assert rows == [{"tag": {"a": 1}, "at": True, "text": text} for text in ("2", "3", "x")]


@pytest.mark.long
def test_a_function_without_rows_must_declare_its_columns(run: RunWith, csv: str) -> None:
    text = csv + "- {stage: 'python_row_transform:none'}\n"
    with pytest.raises(RunError, match="gave no row that tells its columns; a function may declare them"):
        run(text, none="def none(row):\n  return None\n")
    with pytest.raises(RunError, match=r"every row failed, the first one so: none: .*exit code 3"):
        run(text, none="import os\ndef none(row):\n  os._exit(3)\n")
    declared = "def none(row) -> {'a': int}:\n  return None\n"
    assert run(text, none=declared) == []


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("{'\\ud800': 1}", r"the column '\ud800' has a character in its name that cannot be stored"),
        ("{'a\\0b': 1}", r"the column 'a\x00b' has a character in its name that cannot be stored"),
        ("{'': 1}", "a column must have a name"),
        ("{'A': 1, 'a': 1}", "the columns 'A' and 'a' differ only in case"),
        ("{'__link': 1}", "the column '__link' begins with __"),
        ("{'_URL': 1}", "a column cannot be called _URL: it is the engine's own"),
    ],
)
def test_invalid_column_names_are_errors_with_their_line(run: RunWith, csv: str, row: str, told: str) -> None:
    text = csv + "- {stage: 'python_row_transform:f'}\n"
    with pytest.raises(RunError) as error:
        run(text, f=f"def f(row):\n  return {row}\n")
    assert str(error.value).startswith(f"line 3: python_row_transform:f: {told}")


def test_an_invalid_column_name_in_a_later_row_is_an_error_of_the_row(run: RunWith, tmp_path: Path) -> None:
    text = load_table(tmp_path, "n\n" + "".join(f"{n}\n" for n in range(200)), "- {stage: 'python_row_transform:f'}\n")
    source = "def f(row):\n  return {'n': 1, '\\ud800': 2} if row['n'] == '150' else {'n': 1}\n"
    rows = run(text + "spindle: {keepColumns: [_error]}\n", f=source)
    assert [row["_error"] for row in rows if row["_error"]] == [
        r"f: there is no column '\ud800' among its columns n, as the first 100 rows have them"
    ]


def test_a_function_that_cannot_be_loaded_ends_the_run(run: RunWith, csv: str) -> None:
    source = "import nothing_like_it\ndef f(row) -> {'a': int}:\n  return row\n"
    told = "f cannot be loaded: line 1: ModuleNotFoundError: No module named 'nothing_like_it'"
    with pytest.raises(RunError, match=f"^line 3: python_row_transform:f: {told}$"):
        run(csv + "- {stage: 'python_row_transform:f'}\n", f=source)


def test_a_function_of_ones_own_runs_in_the_worker(run: RunWith, csv: str) -> None:
    def shout(row: dict[str, Any], times: int = 1) -> dict[str, Any]:
        return {"name": row["name"].upper() * times, "length": 1 // (len(row["name"]) - 3)}

    text = csv + "- {stage: 'python_row_transform:shout', args: {times: 2}}\nspindle: {keepColumns: [_error]}\n"
    rows = run(text, shout=shout)
    assert [row["name"] for row in rows] == ["LAMPLAMP", "cup", "BOWLBOWL"]
    assert "ZeroDivisionError: integer division or modulo by zero" in rows[1]["_error"]


@pytest.mark.long
def test_a_row_that_takes_too_long_costs_only_itself(run: RunWith, csv: str) -> None:
    text = csv + "- {stage: 'python_row_transform:f'}\nspindle: {keepColumns: [_error]}\n"
    source = "def f(row) -> {'name': str}:\n  while row['name'] == 'cup': pass\n  return {'name': row['name']}\n"
    assert [row["_error"] for row in run(text, 3, f=source)] == [None, "f: it took longer than 3 s for a row", None]


WRONG = [
    ("- {stage: 'python_row_transform:clear'}", "unknown row transform 'clear'; did you mean clean?"),
    ("- {stage: 'python_row_transform:clean', args: {curency: x}}", "did you mean currency?"),
    ("- {stage: 'python_row_transform:clean', args: [x]}", "takes its arguments by name: a map"),
    ("- {stage: 'python_row_transform:clean', args: {onError: x}}", "unknown choice 'x'"),
    ("- {stage: 'python_row_transform:two'}", "the argument 'b' is missing"),
    ("- {stage: 'python_row_transform:bad'}", "in the function 'bad', line 2: not Python"),
    ("- {stage: 'python_row_transform:odd'}", "in the function 'odd', line 1: the type of 'a' fits no column"),
    ("- {stage: 'python_row_transform:own'}", "function 'own', line 1: a column cannot be called _status: it is"),
]


@pytest.mark.parametrize(("stage", "message"), WRONG)
def test_a_wrong_call_is_an_error_with_its_line(csv: str, stage: str, message: str) -> None:
    own = {
        "clean": CLEAN,
        "two": "def two(row, b): return row",
        "bad": "def bad(row):\n  return (",
        "odd": "def odd(row) -> {'a': complex}: return row",
        "own": "def own(row) -> {'a': int, '_status': int}: return row",
    }
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(csv + stage).plan(transforms=Transforms(own))
    assert message in str(error.value)
    assert error.value.problems[0].line == 3


def test_an_unregistered_name_is_a_warning_while_it_may_still_be_registered(csv: str) -> None:
    pipeline = Pipeline.from_yaml(csv + "- {stage: 'python_row_transform:later', args: {any: 1}}\n")
    (warning,) = pipeline.check()
    assert str(warning).startswith("line 3: unknown row transform 'later'")
    with pytest.raises(PipelineError, match="unknown row transform 'later'"):
        pipeline.plan()
