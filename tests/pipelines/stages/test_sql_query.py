"""sql_query over several tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import Files, make_table_key
from pipelines.errors import ArgumentError, PipelineError, RunError
from pipelines.pipeline import Pipeline, check_yaml
from pipelines.sql.expressions import check_query, find_qualified_columns, find_query_columns
from tests.support.pipelines import Run, find_problem

PRICES = {"sku": ["a", "b", "c"], "price": [10.0, 20.0, 30.0], "currency": ["USD", "EUR", "GBP"]}
RATES = {"currency": ["USD", "EUR"], "rate": [0.9, 1.0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("prices", PRICES), ("rates", RATES)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(rows), tmp_path / name / "part-0.parquet")
    (tmp_path / "rows.csv").write_text("sku,title\nb,Bed\na,Axe\nz,Zoo\n")
    return tmp_path


@pytest.fixture
def service(folder: Path) -> RunContext:
    """Return the context of an execution with two datasets, one of them in two versions."""
    earlier = folder / "earlier"
    earlier.mkdir()
    pq.write_table(pa.table({"currency": ["USD"], "rate": [0.5]}), earlier / "part-0.parquet")
    inputs = {"shop.prices": "prices", "fx.daily": "rates", "fx.daily@4": "earlier"}
    return RunContext(
        inputs={make_table_key(name): Files((str(folder / each),), "parquet") for name, each in inputs.items()},
        local_folders=(),
    )


def query(text: str, tables: str, before: str = "") -> str:
    return f"pipeline:\n{before}- stage: sql_query\n  args:\n  - {text}\n  - tables: {{{tables}}}\n"


def test_a_pipeline_begins_with_a_join_of_two_datasets(run: Run, service: RunContext) -> None:
    text = "SELECT p.sku, p.price * r.rate AS euros FROM prices p JOIN rates r USING (currency) ORDER BY euros DESC"
    rows = run(query(text, "prices: shop.prices, rates: fx.daily"), service)
    assert rows == [{"sku": "b", "euros": 20.0}, {"sku": "a", "euros": 9.0}]


def test_two_versions_of_one_dataset_are_two_tables(run: Run, service: RunContext) -> None:
    text = "SELECT n.rate - o.rate AS rise FROM new n JOIN old o USING (currency)"
    assert run(query(text, "new: fx.daily, old: fx.daily@4"), service) == [{"rise": 0.4}]


@pytest.mark.long
def test_the_rows_are_joined_with_files_without_a_server(run: Run, folder: Path) -> None:
    load = f"- {{stage: load_csv, args: [{folder}/rows.csv]}}\n"
    text = "SELECT r.*, p.price FROM rows r LEFT JOIN Prices p ON p.sku = r.sku"
    rows = run(query(text, f"prices: {folder}/prices", load) + "- {stage: sort, args: [sku]}")
    assert [(row["title"], row["price"]) for row in rows] == [("Axe", 10.0), ("Bed", 20.0), ("Zoo", None)]
    one = run(query("SELECT count(*) AS n FROM p", f"p: {folder}/prices/part-0.parquet"))
    both = run(query("SELECT count(*) AS n FROM p, f", f"p: {folder}/*.csv, f: {folder}/rows.csv"))
    assert (one, both) == ([{"n": 3}], [{"n": 9}])


def test_a_table_that_is_not_published_yet_is_empty_with_the_columns_of_the_rows(run: Run, folder: Path) -> None:
    load = f"- {{stage: load_csv, args: [{folder}/rows.csv]}}\n"
    text = "SELECT r.sku, (SELECT count(*) FROM own) AS n FROM rows r LEFT ANTI JOIN own o ON o.sku = r.sku"
    nothing = RunContext(inputs={make_table_key("own"): Files((), "parquet")})
    rows = run(query(text, "own: own", load), nothing)
    assert sorted((row["sku"], row["n"]) for row in rows) == [("a", 0), ("b", 0), ("z", 0)]


def test_later_stages_see_other_tables_by_the_same_name(run: Run, service: RunContext, spark: SparkSession) -> None:
    first = query("SELECT sku FROM t WHERE price > 10", "t: shop.prices")
    second = query("SELECT r.sku, t.rate FROM rows r JOIN t ON true", "t: fx.daily@4").removeprefix("pipeline:\n")
    rows = run(first + second, service)
    assert sorted(row["sku"] for row in rows) == ["b", "c"]
    assert {row["rate"] for row in rows} == {0.5}
    assert "t" not in {each.name for each in spark.catalog.listTables()}


def test_the_columns_of_the_result_go_on_to_pages(run: Run, service: RunContext) -> None:
    text = query("SELECT sku, price FROM p WHERE price < 25", "p: shop.prices")
    rows = run(text + "- {stage: filter, args: [price > 10]}\n- {stage: dedup, args: [sku]}", service)
    assert rows == [{"sku": "b", "price": 20.0}]


@pytest.mark.parametrize(
    ("text", "tables", "problem"),
    [
        ("SELECT * FROM rows", "p: shop.prices", "no-rows"),
        ("SELECT * FROM other", "p: shop.prices", "unknown-table"),
        ("SELECT * FROM shop.prices", "p: shop.prices", "unknown-table"),
        ("SELECT * FROM parquet.`/etc`", "parquet: shop.prices", "unknown-table"),
        ("SELECT * FROM p", "p: shop.prices, P: shop.rates", "invalid-argument"),
        ("SELECT * FROM rows", "Rows: shop.prices", "invalid-argument"),
        ("SELECT * FROM p", "p-q: shop.prices", "invalid-argument"),
        ("SELECT * FROM p", "p: ''", "invalid-argument"),
        ("SELECT * FROM p", "p: [a]", "invalid-argument"),
        ("DROP TABLE p", "p: shop.prices", "invalid-sql"),
    ],
)
def test_wrong_tables_are_located(text: str, tables: str, problem: str) -> None:
    found = find_problem(query(text, tables))
    assert (found.code, found.line is not None) == (problem, True)


def test_a_stage_without_tables_begins_no_pipeline() -> None:
    assert find_problem("pipeline:\n- {stage: sql_query, args: [SELECT 1 AS a]}").code == "no-rows"


def test_parameters_name_tables(run: Run, service: RunContext) -> None:
    text = query("SELECT sku FROM p WHERE price = 30", "p: '${SOURCE}'")
    assert check_yaml(text).parameters == {"SOURCE"}
    assert run(text, service, SOURCE="shop.prices") == [{"sku": "c"}]
    assert Pipeline.from_yaml(text).plan({"SOURCE": "a.b@3"}).steps[0].stage.list_tables() == ("a.b@3",)  # type: ignore[union-attr]


def test_a_query_with_parameters_begins_a_pipeline(run: Run, service: RunContext) -> None:
    text = query("SELECT '${A}' AS a, ${B} FROM ${C} WHERE price = 30", "p: shop.prices")
    assert run(text, service, A="${B}", B="sku", C="p") == [{"a": "${B}", "sku": "c"}]
    with pytest.raises(PipelineError, match="no rows to work on"):
        run(text, service, A="", B="sku", C="rows")


@pytest.mark.parametrize("name", ["shop.prices", "fx.daily@4", "spindle://shop/prices", "s3://bucket/x.csv", "nothing"])
def test_without_a_server_the_name_of_a_dataset_is_an_error(run: Run, name: str) -> None:
    with pytest.raises(RunError, match=r"line 2: sql_query .*: '.*' is no file or folder of a known format"):
        run(query("SELECT * FROM p", f"p: {name}"))


def test_in_the_service_a_name_is_never_a_file(run: Run, folder: Path) -> None:
    for allowed in ((), (str(folder),)):
        with pytest.raises(RunError, match="there is no dataset"):
            run(query("SELECT * FROM p", f"p: {folder}/prices"), RunContext(local_folders=allowed))


def test_errors_of_the_run_are_located(run: Run, service: RunContext) -> None:
    twice = "SELECT a.*, b.sku AS SKU FROM p a JOIN p b ON true"
    for text in ("SELECT nothing FROM p", twice, "SELECT x.sku FROM p"):
        with pytest.raises(RunError, match=r"line 2: sql_query .* (cannot be resolved|more than one column 'sku')"):
            run(query(text, "p: shop.prices"), service)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT p.a, r.b FROM prices p JOIN rows r ON p.id = r.id", ["prices.a", "rows.b", "prices.id", "rows.id"]),
        ("SELECT P.A.b FROM Prices AS p", ["prices.A"]),
        ("SELECT prices.a, *, p.* FROM prices, rates p", ["prices.a"]),
        ("SELECT a, p.b FROM prices p, rates p2 ORDER BY p2.c", ["prices.b", "rates.c"]),
        ("SELECT p.a, p FROM prices p", []),
        ("SELECT transform(list, p -> p.a) FROM prices p", []),
        ("SELECT x.a FROM (SELECT * FROM prices) x", []),
        ("SELECT (SELECT max(r.a) FROM rows r) FROM prices p", []),
        ("WITH x AS (SELECT p.a FROM prices p) SELECT x.a FROM x", []),
        ("SELECT t.a FROM prices p LATERAL VIEW explode(p.list) t AS a", []),
        ("SELECT p.a FROM prices p UNION ALL SELECT p.b FROM prices p", []),
    ],
)
def test_only_certain_columns_are_found(text: str, found: list[str]) -> None:
    assert sorted(f"{table}.{column}" for table, column in find_qualified_columns(text)) == sorted(found)


def test_a_column_of_the_rows_is_checked_in_a_join() -> None:
    text = "SELECT r.titel, p.price FROM rows r JOIN p USING (sku)"
    assert find_query_columns(text, ["p"]) == ("titel",)
    assert find_query_columns("SELECT price FROM p", ["p"]) == ()
    crawl = "- {stage: wget, args: ['http://a/']}\n- {stage: extract, args: [{selector: h1, as: title}]}\n"
    problem = find_problem(query(text, "p: shop.prices", crawl))
    assert (problem.code, problem.line) == ("unknown-column", 6)
    assert "did you mean title" in problem.message


def test_the_gate_admits_the_named_tables_alone() -> None:
    assert check_query("SELECT * FROM P, rows", ["p"])
    with pytest.raises(ArgumentError, match=r"no table 'q'.*'tables' has a, b"):
        check_query("SELECT * FROM a, q", ["b", "a"])
