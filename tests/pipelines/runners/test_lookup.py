"""A lookup gives the same rows on both runners and in a trial, and refuses the same datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import Files, make_table_key
from pipelines.engine.run import Run
from pipelines.errors import NeedsSpark, RunError
from pipelines.language.engines import Growth
from pipelines.local.engine_choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.planning.plan import Plan
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import crawl
from tests.support.runners import Outcome, Runners
from tests.support.site import Site
from tests.support.trials import open_trial

PRODUCTS = "sku,currency\nA,EUR\nB,USD\nC,\nD,GBP\nE,EUR\nF,usd\n"
RATES = "code,rate,name\nUSD,0.9,dollar\nEUR,1,euro\nJPY,,yen\n,7,none\n,8,none\n"
BY_CURRENCY = "{on: {currency: code}, columns: [rate]}"
CURRENCY = "{stage: extract, args: [{selector: h1, as: currency}]}"
LOOPBACK = ("127.0.0.0/8",)
TYPED = """
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Annotated, TypedDict

class Typed(TypedDict):
    n: int
    f: float | None
    exact: Annotated[Decimal, "decimal(10,2)"]
    day: date | None
    at: datetime | None
    ok: bool | None
    raw: bytes | None

def typed(row) -> Typed:
    n = int(row["n"])
    at = datetime(2026, 1, 1 + n, 12, tzinfo=timezone.utc) if n % 4 else None
    return {"n": n, "f": [float("nan"), 1.0, -0.0, None, 2.5][n % 5], "exact": Decimal(n), "day": at and at.date(),
            "at": at, "ok": [True, False, None][n % 3], "raw": bytes([n])}
"""
NUMBERS = "n\n" + "".join(f"{number}\n" for number in range(7))


def build(folder: Path, dataset: object, arguments: str, rows: str = PRODUCTS, stages: str = "", more: str = "") -> str:
    path = folder / "rows.csv"
    path.write_text(rows)
    load = f"- {{stage: load_csv, args: ['{path}']}}\n"
    return f"pipeline:\n{load}{stages}- {{stage: lookup, args: ['{dataset}', {arguments}]}}\n{more}"


def write_rates(folder: Path, content: str = RATES, name: str = "rates.csv") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def write_parquet(folder: Path, columns: Mapping[str, Any], name: str = "dataset.parquet") -> Path:
    path = folder / name
    pq.write_table(pa.table(dict(columns)), path)
    return path


def list_rows(outcome: Outcome) -> list[Mapping[str, Any]]:
    assert outcome.failure is None, outcome.failure
    return [*outcome.preview]


@pytest.mark.long
def test_each_row_gets_the_columns_of_its_key(runners: Runners, tmp_path: Path) -> None:
    arguments = "{on: {currency: code}, columns: [rate, name], prefix: fx_}"
    found = runners.assert_equal(runners.plan(build(tmp_path, write_rates(tmp_path), arguments)))
    assert found.columns == tuple((name, "string") for name in ("sku", "currency", "fx_rate", "fx_name"))
    values = [tuple(row.values()) for row in list_rows(found)]
    assert values == [
        ("A", "EUR", "1", "euro"),
        ("B", "USD", "0.9", "dollar"),
        ("C", None, None, None),
        ("D", "GBP", None, None),
        ("E", "EUR", "1", "euro"),
        ("F", "usd", None, None),
    ]


def test_rows_keep_their_order_where_both_sides_are_shuffled(
    spark: SparkSession, runners: Runners, tmp_path: Path
) -> None:
    rows = "sku,n\n" + "".join(f"{number % 7},{number}\n" for number in range(500))
    rates = write_rates(tmp_path, "sku,rate\n" + "".join(f"{number},{number}.5\n" for number in range(6)))
    plan = runners.plan(build(tmp_path, rates, "{on: {sku: sku}, columns: [rate]}", rows))
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    spark.conf.set("spark.sql.adaptive.enabled", False)
    try:
        with Run(plan) as run:
            SparkRunner(run, spark).write(str(tmp_path / "out"))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset("spark.sql.adaptive.enabled")
    files = sorted((tmp_path / "out").glob("*.parquet"))
    written = pa.concat_tables(map(pq.read_table, files)).to_pylist()
    expected = [(str(number), f"{number % 7}.5" if number % 7 < 6 else None) for number in range(500)]
    assert [(row["n"], row["rate"]) for row in written] == expected


@pytest.mark.long
def test_a_key_may_have_several_columns(runners: Runners, tmp_path: Path) -> None:
    rates = write_rates(tmp_path, "code,day,rate\nEUR,A,1\nEUR,E,2\nUSD,A,3\nEUR,,4\nEUR,,5\n")
    plan = runners.plan(build(tmp_path, rates, "{on: {currency: CODE, sku: day}, columns: [Rate]}"))
    assert [row["Rate"] for row in list_rows(runners.assert_equal(plan))] == ["1", None, None, None, "2", None]


@pytest.mark.long
def test_stages_before_and_after_a_lookup_see_the_same_rows(runners: Runners, site: Site, tmp_path: Path) -> None:
    items = "".join(f"<li><a href=/{code}>{code}</a><b>{number}</b>" for number, code in enumerate(("EUR", "USD", "X")))
    base = site.serve({"/": items, "/EUR": "<h1>e</h1>", "/USD": "<h1>u</h1>"})
    plan = runners.plan(f"""
fetch: {{url: '{base}/'}}
pipeline:
- {{stage: flatSelect, args: [li, [{{selector: a, as: code}}, {{selector: b, as: n, cast: int}}]]}}
- {{stage: lookup, args: ['{write_rates(tmp_path)}', {{on: {{$code: code}}, columns: [rate, name]}}]}}
- {{stage: sort, args: [rate, {{column: n, desc: true}}]}}
- {{stage: wget, args: [$_requestedUrl]}}
- {{stage: extract, args: [{{selector: "li:last-child a", as: last}}, {{field: name, as: currency}}]}}
checks: [{{check: not_null, columns: [rate], severity: warn}}]
""")
    rows = list_rows(runners.assert_equal(plan))
    assert [(row["code"], row["rate"], row["last"], row["currency"]) for row in rows] == [
        ("X", None, "X", None),
        ("USD", "0.9", "X", "dollar"),
        ("EUR", "1", "X", "euro"),
    ]


TYPES: dict[str, tuple[str, Sequence[Any], pa.DataType]] = {
    "whole": ("n", [2, 5, 99], pa.int32()),
    "small": ("n", [2, 5, 99], pa.int16()),
    "decimals of another scale": ("exact", [Decimal("2.000"), Decimal("3.001")], pa.decimal128(12, 3)),
    "decimals and whole numbers": ("exact", [2, 3], pa.int64()),
    "doubles": ("f", [math.nan, 0.0, 2.5], pa.float64()),
    "doubles and floats": ("f", [math.nan, -0.0, 2.5], pa.float32()),
    "doubles and whole numbers": ("f", [1, 2, 0], pa.int64()),
    "whole numbers and doubles": ("n", [1.0, 2.5, 3.0, math.nan], pa.float64()),
    "decimals and doubles": ("exact", [1.0, 2.5, 3.0, math.nan], pa.float64()),
    "dates": ("day", [date(2026, 1, 2), date(2026, 1, 3), None], pa.date32()),
    "timestamps": ("at", [datetime(2026, 1, 2, 12, tzinfo=UTC), None], pa.timestamp("ms", "Europe/Berlin")),
    "truth values": ("ok", [True, None], pa.bool_()),
    "bytes": ("raw", [b"\x01", b"\x02"], pa.binary()),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", TYPES)
def test_keys_of_equal_kinds_are_compared(runners: Runners, tmp_path: Path, kind: str) -> None:
    column, keys, type_ = TYPES[kind]
    marks = pa.array([f"mark {number}" for number in range(len(keys))])
    path = write_parquet(tmp_path, {"key": pa.array(keys, type_), "mark": marks})
    stages = "- {stage: 'python_row_transform:typed'}\n"
    text = build(tmp_path, path, f"{{on: {{{column}: key}}, columns: [mark]}}", NUMBERS, stages)
    found = list_rows(runners.assert_equal(runners.plan(text, {"typed": TYPED})))
    assert any(row["mark"] for row in found)


@pytest.mark.long
@pytest.mark.parametrize("format_", ["csv", "jsonl", "parquet", "folder"])
def test_datasets_are_files_or_folders(runners: Runners, spark: SparkSession, tmp_path: Path, format_: str) -> None:
    if format_ == "jsonl":
        lines = (
            '{"rate": 0.9, "code": "USD"}',
            "",
            '{"code": "EUR", "rate": 1, "name": null}',
            '{"code": null, "n": true}',
        )
        dataset = write_rates(tmp_path, "\n".join(lines), "rates.jsonl")
    elif format_ == "csv":
        dataset = write_rates(tmp_path)
    elif format_ == "parquet":
        dataset = write_parquet(tmp_path, {"code": ["USD", "EUR"], "rate": [0.9, 1.0]})
    else:
        rows = [("USD", 0.9, None, None), ("EUR", 1.0, None, True)]
        frame = spark.createDataFrame(rows, "code string, rate double, name string, n boolean")
        dataset = tmp_path / "rates"
        frame.repartition(2).write.parquet(str(dataset))
    columns = "rate, name, n" if format_ in ("jsonl", "folder") else "rate"
    plan = runners.plan(build(tmp_path, dataset, f"{{on: {{currency: code}}, columns: [{columns}]}}"))
    found = [row["rate"] for row in list_rows(runners.assert_equal(plan))]
    assert [*map(bool, found)] == [True, True, False, False, True, False]


JSON_LINES = """{"code": "EUR", "mixed": 1, "long": 9999999999999999999, "day": "2026-01-02", "at": "2026-01-02T03:04Z"}
{"code": "USD", "mixed": "x", "long": 1, "day": null, "at": "2026-01-02T03:04:05.5+02:00"}
{"code": "GBP", "at": "2026-01-02 03:04:05.123456000+0200"}
{"code": "usd", "at": "2026-01-02T03:04+02"}
"""


def test_json_has_the_types_of_uploads_on_both_runners(runners: Runners, tmp_path: Path) -> None:
    dataset = write_rates(tmp_path, JSON_LINES, "rates.jsonl")
    found = runners.assert_equal(
        runners.plan(build(tmp_path, dataset, "{on: {currency: code}, columns: [mixed, long, day, at]}"))
    )
    assert dict(found.columns) | {"day": "date", "at": "timestamp", "mixed": "string"} == dict(found.columns)
    assert dict(found.columns)["long"] == "decimal(38,0)"
    assert sum(row["at"] is not None for row in list_rows(found)) == 5, "no time is lost"


REFUSED = {
    "twice": (BY_CURRENCY, "code,rate\nEUR,1\nUSD,2\nUSD,2\n", "several rows with code USD: a lookup finds one row"),
    "unknown column": ("{on: {currency: code}, columns: [rat]}", RATES, "has no column 'rat'; did you mean rate?"),
    "unknown key": ("{on: {currency: id}, columns: [rate]}", RATES, "has no column 'id'; it has code, rate, name"),
    "unknown column of the rows": ("{on: {money: code}, columns: [rate]}", RATES, "there is no column 'money' here"),
    "taken": ("{on: {currency: code}, columns: [SKU]}", "code,sku\nEUR,1\n", "the rows have a column 'SKU' already"),
    "taken by a prefix": ("{on: {currency: code}, columns: [ku], prefix: s}", "code,ku\nEUR,1\n", "'sku' already"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_datasets_and_columns_are_refused(runners: Runners, tmp_path: Path, name: str) -> None:
    arguments, content, sentence = REFUSED[name]
    plan = runners.plan(build(tmp_path, write_rates(tmp_path, content), arguments))
    assert find_spark_need(plan) is None
    for failure in (runners.run_locally(plan).failure, runners.run_on_spark(plan).failure):
        assert failure[0].startswith("line 3: lookup")
        assert sentence in failure[0]
        assert failure[1] == 3


def test_keys_of_other_types_are_refused(runners: Runners, tmp_path: Path) -> None:
    path = write_parquet(tmp_path, {"code": [1, 2], "rate": [1.0, 2.0]})
    failure = runners.assert_equal(runners.plan(build(tmp_path, path, BY_CURRENCY))).failure
    assert "line 3: lookup" in failure[0]
    assert "the column 'currency' is string, and 'code'" in failure[0]
    assert "is bigint: they cannot be compared" in failure[0]


def test_keys_that_are_equal_as_doubles_only_are_refused(runners: Runners, tmp_path: Path) -> None:
    path = write_parquet(tmp_path, {"key": [2**53, 2**53 + 1], "mark": ["a", "b"]})
    stages = "- {stage: 'python_row_transform:typed'}\n"
    text = build(tmp_path, path, "{on: {f: key}, columns: [mark]}", NUMBERS, stages)
    plan = runners.plan(text, {"typed": TYPED})
    for failure in (runners.run_locally(plan).failure, runners.run_on_spark(plan).failure):
        assert failure[0].startswith("line 4: lookup")
        assert "several rows with key 9" in failure[0]


def test_a_missing_dataset_is_refused_before_a_page_is_fetched(runners: Runners, site: Site, tmp_path: Path) -> None:
    base = site.serve({"/": "<h1>EUR</h1>"})
    lookup = f"{{stage: lookup, args: ['{tmp_path}/none.csv', {BY_CURRENCY}]}}"
    plan = runners.plan(crawl(f"{base}/", CURRENCY, lookup))
    for sentence in ("there is no file at", "has no column 'rate'"):
        found = runners.run_locally(plan)
        assert (found.failure[1], sentence in found.failure[0]) == (4, True)
        assert found.requests == {}
        write_rates(tmp_path, "code\nEUR\n", "none.csv")


def test_large_and_unusual_files_are_left_to_spark(runners: Runners, tmp_path: Path) -> None:
    nanoseconds = pa.array([1], pa.timestamp("ns"))
    cases = (
        write_parquet(tmp_path, {"code": ["EUR"], "rate": nanoseconds}),
        write_parquet(tmp_path, {"code": ["EUR"], "rate": pa.array([1], pa.uint32())}, "unsigned.parquet"),
        write_rates(tmp_path, '[{"code": "EUR", "rate": 1}]\n', "list.json"),
        write_rates(tmp_path, '{"code": "EUR", "rate": [1]}\n', "nested.json"),
        write_rates(tmp_path, '{"code": "EUR", "rate": 1, "Rate": 1}\n', "case.json"),
        write_rates(tmp_path, 'code,rate\n"a""b",1\n', "quotes.csv"),
    )
    for path in cases:
        with pytest.raises(NeedsSpark, match=r"line 3: lookup .*only Spark reads"):
            runners.run_locally(runners.plan(build(tmp_path, path, BY_CURRENCY)))


def test_an_own_table_is_empty_until_it_is_published(spark: SparkSession, runners: Runners, tmp_path: Path) -> None:
    stages = "- {stage: 'python_row_transform:typed'}\n"
    arguments = "{on: {n: n}, columns: [f, seen], prefix: last_}"
    plan = runners.plan(build(tmp_path, "shop.numbers", arguments, NUMBERS, stages), {"typed": TYPED})
    context = RunContext(inputs={make_table_key("shop.numbers"): Files((), "parquet")}, local_folders=(str(tmp_path),))
    with Run(plan, context) as run:
        here = LocalRunner(run).collect()
    with Run(plan, context) as run:
        there = SparkRunner(run, spark).collect_ordered()
    assert here.column_names[-2:] == there.columns[-2:] == ["last_f", "last_seen"]
    assert [*map(str, here.schema.types[-2:])] == ["double", "string"]
    assert [type_ for _, type_ in there.dtypes[-2:]] == ["double", "string"]
    assert here.column("last_f").null_count == here.num_rows == there.where("last_f IS NULL").count() == 7


def try_rows(plan: Plan) -> list[dict[str, object]]:
    with open_trial(plan, 10) as trial:
        assert trial.next_step is None
        return [row.values for row in trial.iter_shown_rows()]


@pytest.mark.long
def test_a_trial_shows_what_a_lookup_finds(runners: Runners, site: Site, tmp_path: Path) -> None:
    items = "".join(f"<li><b>{number}</b><i>{number % 2 == 0}</i>" for number in range(3))
    data = '{"items": [{"n": 1}, {"n": 2.0}, {"n": null}]}'
    base = site.serve({"/": items, "/data": data}, {"/data": "application/json"})
    path = write_parquet(tmp_path, {"key": [1, 2], "mark": ["one", "two"]})
    lookup = f"{{stage: lookup, args: ['{path}', {{on: {{n: key}}, columns: [mark]}}]}}"
    plan = runners.plan(crawl(f"{base}/", "{stage: flatSelect, args: [li, {selector: b, as: n, cast: int}]}", lookup))
    assert try_rows(plan) == list_rows(runners.assert_equal(plan))
    plan = runners.plan(crawl(f"{base}/data", "{stage: flatSelect, args: [$.items, {selector: $.n, as: n}]}", lookup))
    assert [row["mark"] for row in try_rows(plan)] == ["one", "two", None]
    assert [row["mark"] for row in list_rows(runners.assert_equal(plan))] == ["one", "two", None]
    csv = runners.plan(build(tmp_path, path, "{on: {currency: key}, columns: [mark]}"))
    with pytest.raises(RunError, match=r"line 3: lookup .*: the column 'currency' is string, and 'key'"):
        try_rows(csv)


@pytest.mark.long
def test_a_limit_reaches_past_a_lookup(runners: Runners, site: Site, tmp_path: Path) -> None:
    base = site.serve(
        {"/": "".join(f"<a href=/{n}>x</a>" for n in range(9)), **{f"/{n}": "<h1>EUR</h1>" for n in range(9)}}
    )
    lookup = f"{{stage: lookup, args: ['{write_rates(tmp_path)}', {BY_CURRENCY}]}}"
    stages = "{stage: join, args: [a]}", CURRENCY, lookup, "{stage: limit, args: [2]}"
    found = runners.assert_equal(runners.plan(crawl(f"{base}/", *stages)))
    assert found.requests == {"/": 1, "/0": 1, "/1": 1}


def test_a_trial_names_the_first_dataset_that_is_no_file(runners: Runners, tmp_path: Path) -> None:
    more = "- {stage: lookup, args: [none.b, {on: {rate: rate}, columns: [rate], prefix: b_}]}\n"
    plan = runners.plan(build(tmp_path, "none.a", BY_CURRENCY, more=more))
    with pytest.raises(RunError, match=r"line 3: lookup none\.a .*: 'none\.a' is no file or folder"):
        try_rows(plan)


@pytest.mark.long
def test_a_lookup_may_use_the_columns_of_another(runners: Runners, tmp_path: Path) -> None:
    marks = write_rates(tmp_path, "name,mark\neuro,1\nyen,2\n", "marks.csv")
    more = f"- {{stage: lookup, args: ['{marks}', {{on: {{fx_name: name}}, columns: [mark]}}]}}\n"
    more += "- {stage: dedup, args: [mark]}\n- {stage: filter, args: [\"sku <> 'C'\"]}\n"
    arguments = "{on: {currency: code}, columns: [name], prefix: fx_}"
    plan = runners.plan(build(tmp_path, write_rates(tmp_path), arguments, more=more))
    here, there = runners.run_locally(plan), runners.run_on_spark(plan)
    runners.assert_same(here, there)
    assert [(row["sku"], row["mark"]) for row in list_rows(here)] == [("A", "1"), ("B", None)]


def test_a_run_that_grows_over_looks_up_the_same(runners: Runners, site: Site, tmp_path: Path) -> None:
    pages = {f"/{number}": f"<h1>{code}</h1>" for number, code in enumerate(("EUR", "USD", "JPY", "X"))}
    base = site.serve({"/": "".join(f"<a href={path}>x</a>" for path in pages), **pages})
    lookup = f"{{stage: lookup, args: ['{write_rates(tmp_path)}', {{on: {{currency: code}}, columns: [rate, name]}}]}}"
    plan = runners.plan(crawl(f"{base}/", "{stage: join, args: [a]}", CURRENCY, lookup))
    alone = runners.run_locally(plan)
    grown, error = runners.run_growing(plan, Growth(pages=2, slow_pages=2))
    assert error is not None
    runners.assert_same(alone, grown)
    assert [row["name"] for row in list_rows(grown)] == ["euro", "dollar", "yen", None]


@pytest.mark.long
def test_rows_whose_page_failed_find_nothing(runners: Runners, site: Site, tmp_path: Path) -> None:
    base = site.serve({"/": "<a href=/1>x</a><a href=/2>x</a>", "/1": "<h1>EUR</h1>", "/2": 404})
    lookup = f"{{stage: lookup, args: ['{write_rates(tmp_path)}', {BY_CURRENCY}]}}"

    def find(more: str = "") -> list[Mapping[str, Any]]:
        options = f"maxFailureRatio: 1, retries: 0{more}"
        text = crawl(f"{base}/", "{stage: join, args: [a]}", CURRENCY, lookup, options=options)
        return list_rows(runners.assert_equal(runners.plan(text)))

    assert [row["rate"] for row in find()] == ["1"]
    kept = find(", keepColumns: [_error]")
    assert [(row["rate"], bool(row["_error"])) for row in kept] == [("1", False), (None, True)]
