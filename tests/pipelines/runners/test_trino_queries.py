"""Queries in Trino's SQL give the same rows, types and order on both runners; of the many, the first run by default."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cases import each_case
from tests.support.runners import Runners

STATEMENTS, FIRST = 120, 16
START = dt.datetime(2026, 3, 29, 0, 30, tzinfo=dt.UTC)
OLD = START.replace(year=1890, tzinfo=None)
Draw = Callable[[Random], Any]
COLUMNS: dict[str, tuple[pa.DataType, Draw]] = {
    "n": (pa.int64(), lambda r: r.randint(-3, 3)),
    "i": (pa.int32(), lambda r: r.choice([-(2**31), 0, 7])),
    "f": (pa.float64(), lambda r: r.choice([0.0, -0.0, 1.5, float("nan"), float("inf")])),
    "price": (pa.decimal128(10, 2), lambda r: Decimal(r.randint(-500, 500)) / 100),
    "name": (pa.string(), lambda r: r.choice(["a", "A", "Émile", "", "\uff5e", "😀"])),
    "ok": (pa.bool_(), lambda r: r.random() < 0.5),
    "day": (pa.date32(), lambda r: START.date() + dt.timedelta(days=r.randint(-1, 1))),
    "at": (pa.timestamp("us", "UTC"), lambda r: START + dt.timedelta(minutes=r.randint(0, 3) * 30)),
    "clock": (pa.timestamp("us"), lambda r: OLD + dt.timedelta(microseconds=r.randint(0, 3))),
    "tags": (pa.list_(pa.string()), lambda r: r.choices(["x", None, "y"], k=r.randint(0, 2))),
    "box": (pa.struct([("w", pa.int64()), ("t", pa.string())]), lambda r: {"w": r.randint(0, 1), "t": None}),
}
KEYS = ("n", "f", "price", "name", "ok", "day", "at", "clock", "tags", "box")
ORDERED = ("n", "i", "f", "price", "name", "day", "at", "clock")
AGGREGATES = (
    *("count(*)", "count({0})", "count(DISTINCT {0})", "min({0})", "max({0})", "arbitrary(n IS NULL)"),
    *("sum(n)", "avg(price)", "sum(price)", "avg(n)", "bool_or(ok)", "array_agg({0} ORDER BY {0})", "min_by(name, n)"),
)
VALUES = (
    *(
        "coalesce(n, 0) + 1",
        "price / 3",
        "price * n",
        "nullif(name, 'a')",
        "CAST(price AS double)",
        "CAST(n AS varchar)",
    ),
    *("date_trunc('hour', at)", "day + INTERVAL '1' DAY", "upper(name)", "cardinality(tags)", "box.w", "tags || name"),
    *("CASE WHEN f > 1 THEN 'big' WHEN is_nan(f) THEN 'nan' END", "row_number() OVER (ORDER BY n, name, clock, i)"),
    *("ROW(n, name)", "map(ARRAY[1], ARRAY[name])", "CAST(NULL AS bigint)", "to_unixtime(at)", "now() > at"),
)
CONDITIONS = ("n > 0", "f <> 1.5", "f > 1", "name IS NULL", "price BETWEEN -1 AND 1", "ok", "name LIKE 'a%'", "NOT ok")


def make_table(random: Random, count: int) -> pa.Table:
    columns = {
        name: pa.array([None if random.random() < 0.15 else draw(random) for _ in range(count)], type_)
        for name, (type_, draw) in COLUMNS.items()
    }
    return pa.table(columns)


def make_statements(random: Random) -> Iterator[str]:
    """Yield statements over `p` and `q`, with an order of all columns where rows could change places."""
    where = f" WHERE {random.choice(CONDITIONS)}" if random.random() < 0.4 else ""
    key, other = random.sample(KEYS[:-1], 2)  # rows cannot be compared
    join = random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    every = ", ".join(f"x.{name}{random.choice(['', ' DESC'])}" for name in ORDERED)
    yield f"SELECT x.*, y.n AS m, y.{other} AS other FROM p x {join} q y ON x.{key} = y.{key} ORDER BY {every}, m, y.i"
    found = random.sample(AGGREGATES, 4)
    cells = ", ".join(f"{each.format(random.choice(ORDERED))} AS c{at}" for at, each in enumerate(found))
    key, other = random.sample(ORDERED, 2)
    yield f"SELECT {key}, {cells} FROM p{where} GROUP BY {key} ORDER BY {key}"
    cells = ", ".join(f"{each} AS v{at}" for at, each in enumerate(random.sample(VALUES, 5)))
    yield f"SELECT {cells} FROM p{where} ORDER BY n, name, clock, i LIMIT {random.randint(1, 20)}"
    yield f"SELECT DISTINCT {key}, {other} FROM p UNION SELECT {key}, {other} FROM q ORDER BY 1, 2"
    yield f"SELECT n, name FROM p EXCEPT SELECT n, name FROM q{where} ORDER BY 1, 2"


@pytest.mark.gate
@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [*range(FIRST), *(pytest.param(each, marks=pytest.mark.variant) for each in range(FIRST, STATEMENTS))]
)
def test_a_generated_query_gives_the_same(seed: int, runners: Runners, tmp_path: Path) -> None:
    random = Random(seed)
    for name in ("p", "q"):
        pq.write_table(make_table(random, 24), tmp_path / f"{name}.parquet")
    statement = [*make_statements(random)][seed % 5]
    runners.assert_equal(runners.plan(query(statement, tmp_path)))


def query(statement: str, folder: Path, before: str = "", after: str = "") -> str:
    tables = f"{{p: '{folder}/p.parquet', q: '{folder}/q.parquet'}}"
    stage = f'- stage: sql_query\n  args:\n  - "{statement}"\n  - {{dialect: trino, tables: {tables}}}\n'
    return f"pipeline:\n{before}{stage}{after}"


LOAD = "- {{stage: load_csv, args: [{folder}/rows.csv]}}\n"
FILTERED = "- {stage: filter, args: ['n >= 2']}\n- {stage: sort, args: [{column: name, desc: true}]}\n"
SELECTED = "SELECT r.name, CAST(r.size AS bigint) + coalesce(x.n, 0) AS n FROM rows r LEFT JOIN p x ON x.name = r.name"
PLANS = {
    "the rows and stages after them": (SELECTED, FILTERED),
    "row by row, in the order of the rows": ("SELECT size, upper(name) FROM rows WHERE name <> 'a'", ""),
    "the order of the rows": ("SELECT r.*, x.n FROM rows r JOIN p x ON x.name = r.name OR x.n = 1", ""),
    "unnested": ("SELECT name, letter FROM rows CROSS JOIN UNNEST(split(size, '1')) AS t(letter) ORDER BY 1, 2", ""),
    "a table twice, and an empty result": ("SELECT a.n, b.box FROM p a, p b WHERE a.n > 9 AND b.n > 9", ""),
    "a division by zero": ("SELECT 1 / (n - n) AS x FROM p WHERE n IS NOT NULL", ""),
    "an unknown column": ("SELECT p.nope FROM p", ""),
    "a name twice": ("SELECT * FROM p a JOIN p b ON a.n = b.n", ""),
    "a type that nothing stores": ("SELECT n, ARRAY[INTERVAL '1' DAY] AS d FROM p", ""),
}


@pytest.mark.long
@each_case("name", PLANS)
def test_a_query_among_other_stages_gives_the_same(name: str, runners: Runners, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("name,size\nb,10\na,21\n😀,3\nA,11\n")
    for table in ("p", "q"):
        pq.write_table(make_table(Random(1), 24), tmp_path / f"{table}.parquet")
    statement, after = PLANS[name]
    runners.assert_equal(runners.plan(query(statement, tmp_path, LOAD.format(folder=tmp_path), after)))


def test_files_of_other_programs_are_read_or_named(runners: Runners, tmp_path: Path) -> None:
    (tmp_path / "p.parquet").mkdir()
    foreign = {"big": pa.array([2**64 - 1], pa.uint64()), "at": pa.array([1_000_001_999], pa.timestamp("ns"))}
    pq.write_table(pa.table(foreign), tmp_path / "p.parquet/a.parquet")
    pq.write_table(pa.table(foreign), tmp_path / "q.parquet")
    outcome = runners.assert_equal(runners.plan(query("SELECT big - 1 AS big, at FROM p", tmp_path)))
    assert outcome.columns == (("big", "decimal(21,0)"), ("at", "timestamp_ntz"))
    assert "'big': Decimal('18446744073709551614')" in outcome.ordered[0]
    assert "'at': datetime.datetime(1970, 1, 1, 0, 0, 1, 1)" in outcome.ordered[0]
    (tmp_path / "p.parquet/b.parquet").write_bytes(b"junk")
    (tmp_path / "none.json").write_text("")
    text = query("SELECT 1 AS n FROM p", tmp_path)
    files = (("p.parquet", "The file 'b.parquet' cannot be read."), ("none.json", "the table 'p' has no columns"))
    for name, sentence in files:
        outcome = runners.run_locally(runners.plan(text.replace("p.parquet", name)))
        assert outcome.failure is not None
        assert outcome.failure[0].endswith(sentence)
