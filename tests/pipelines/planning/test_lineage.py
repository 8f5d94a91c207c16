"""Lineage of a plan's columns: descriptions, and the columns of sources that stages make them of."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import PipelineError
from pipelines.language.origins import OTHERS, TracedColumn
from pipelines.pipeline import Pipeline
from pipelines.planning.lineage import Lineage, trace_plan

SHOP, BOOKS, PRICES = "https://shop.example", "spindle://first/books", "table://shop.prices"
LOAD = f"  - {{stage: load_parquet, args: ['{BOOKS}']}}\n"


def trace(text: str, **values: Any) -> Lineage:
    pipeline = Pipeline.from_yaml(text)
    return trace_plan(pipeline.plan(values) if values else pipeline.plan_open())


def read(columns: tuple[TracedColumn, ...]) -> dict[str, set[tuple[str, str | None]]]:
    return {each.name: {(one.source, one.column) for one in each.sources} for each in columns}


def query(sql: str, dialect: str, first: str = LOAD) -> dict[str, set[tuple[str, str | None]]]:
    stage = f'  - {{stage: sql_query, args: ["{sql}", {{dialect: {dialect}, tables: {{more: shop.prices}}}}]}}\n'
    return read(trace(f"pipeline:\n{first}{stage}").output)


def test_an_extractor_reads_a_part_of_the_pages_of_a_host() -> None:
    lineage = trace("""
fetch: {url: "https://user:secret@shop.example:443/start?token=secret#x"}
pipeline:
  - {stage: wgetJoin, args: [a.product]}
  - {stage: flatSelect, args: [li, [{selector: b, as: name, description: "Name of the thing"}]]}
  - stage: extract
    args: [{xpath: "//i", as: price, method: price}, {field: name, as: copy}, {field: name, as: own, description: Own}]
  - {stage: limit, args: [5]}
  - {stage: save_csv, args: [kept]}
  - {stage: extract, args: [{field: price, as: later}]}
""")
    assert read(lineage.output) == {
        "name": {(SHOP, "b")},
        "price": {(SHOP, "//i")},
        "copy": {(SHOP, "b")},
        "own": {(SHOP, "b")},
        "later": {(SHOP, "//i")},
    }
    assert [each.description for each in lineage.output] == ["Name of the thing", None, None, "Own", None]
    assert (lineage.sources, [*read(lineage.saves["kept"])]) == ((SHOP,), ["name", "price", "copy", "own"])


def test_pages_at_addresses_in_a_column_come_from_that_column() -> None:
    lineage = trace("""
pipeline:
  - {stage: load_csv, args: [seeds.csv]}
  - {stage: wget, args: [$address]}
  - {stage: extract, args: [{selector: h1, as: title}]}
spindle: {keepColumns: [_url]}
""")
    assert read(lineage.output) == {
        "title": {("seeds.csv", "address")},
        "_url": {("seeds.csv", "address")},
        OTHERS: {("seeds.csv", OTHERS)},
    }


@pytest.mark.parametrize("dialect", ["spark", "trino"])
class TestQueries:
    """Queries in both dialects."""

    def test_a_rename_keeps_the_description_and_an_expression_does_not(self, dialect: str) -> None:
        lineage = trace(f"""
fetch: {{url: "{SHOP}/"}}
pipeline:
  - {{stage: extract, args: [{{selector: h1, as: title, description: The title}}, {{selector: i, as: n, cast: int}}]}}
  - {{stage: sql_query, args: ["SELECT Title AS name, n + 1 AS more, 1 AS one FROM rows", {{dialect: {dialect}}}]}}
""")
        assert read(lineage.output) == {"name": {(SHOP, "h1")}, "more": {(SHOP, "i")}}
        assert [each.description for each in lineage.output] == ["The title", None]

    def test_a_join_names_both_tables(self, dialect: str) -> None:
        found = query("SELECT r.*, m.price * r.tax AS gross FROM rows r JOIN more m ON r.id = m.id", dialect)
        assert found == {"gross": {(PRICES, "price"), (BOOKS, "tax")}, OTHERS: {(BOOKS, OTHERS)}}

    def test_names_that_may_be_of_both_tables_are_of_both(self, dialect: str) -> None:
        assert query("SELECT price FROM rows, more", dialect)["price"] == {(PRICES, "price"), (BOOKS, "price")}

    def test_subqueries_unions_and_windows_are_followed(self, dialect: str) -> None:
        found = query(
            "WITH x AS (SELECT *, a + b AS c FROM rows) SELECT c, max(d) OVER (PARTITION BY e) AS top FROM x "
            "UNION ALL SELECT m.f, m.g FROM more m",
            dialect,
        )
        assert found == {
            "c": {(BOOKS, "a"), (BOOKS, "b"), (PRICES, "f")},
            "top": {(BOOKS, "d"), (BOOKS, "e"), (PRICES, "g")},
        }

    def test_a_count_of_rows_is_of_all_columns(self, dialect: str) -> None:
        lineage = trace(
            f"pipeline:\n{LOAD}  - {{stage: sql_query, args: [SELECT count(*) AS n FROM rows, {{dialect: {dialect}}}]}}"
        )
        assert (read(lineage.output), lineage.output[0].is_whole) == ({"n": {(BOOKS, None)}}, True)

    def test_a_query_that_cannot_be_followed_is_of_all_columns(self, dialect: str) -> None:
        found = query("SELECT a, (SELECT max(z) FROM more) AS z FROM rows", dialect)
        assert found == {each: {(BOOKS, None), (PRICES, None)} for each in ("a", "z", OTHERS)}


def test_a_deep_query_is_followed_once() -> None:
    steps = ", ".join(f"t{n} AS (SELECT a + b AS a, a - b AS b FROM t{n - 1})" for n in range(1, 30))
    found = query(f"WITH t0 AS (SELECT x AS a, y AS b FROM rows), {steps} SELECT a FROM t29", "trino")
    assert found == {"a": {(BOOKS, "x"), (BOOKS, "y")}}


def test_a_lookup_adds_columns_of_its_dataset() -> None:
    found = trace(
        f"pipeline:\n{LOAD}  - {{stage: lookup, args: [shop.prices, {{on: {{id: id}}, columns: [p], prefix: x_}}]}}"
    )
    assert read(found.output) == {"x_p": {(PRICES, "p")}, OTHERS: {(BOOKS, OTHERS)}}


def test_a_row_function_may_read_all_columns() -> None:
    found = trace(f"""
pipeline:
{LOAD}  - {{stage: lookup, args: [shop.prices, {{on: {{id: id}}, columns: [p]}}]}}
  - {{stage: "python_row_transform:clean"}}
  - {{stage: filter, args: ["x > 1"]}}
""")
    assert read(found.output) == {OTHERS: {(BOOKS, None), (PRICES, "p")}}
    assert found.output[0].is_whole


def test_unions_have_the_sources_of_all_sides() -> None:
    found = trace(f"""
pipeline:
{LOAD}  - {{stage: store, args: [old]}}
  - {{stage: load_csv, args: [new.csv]}}
  - {{stage: unionByName, args: [{{format: parquet, path: more}}]}}
  - {{stage: union_with, args: [old]}}
  - {{stage: sql_query, args: [SELECT a FROM rows]}}
""")
    assert read(found.output) == {"a": {("new.csv", "a"), ("more", "a"), (BOOKS, "a")}}


def test_a_database_and_a_bucket_are_sources_without_credentials() -> None:
    lineage = trace("""
pipeline:
  - stage: load_jdbc
    args: [{url: "jdbc:postgresql://db.example/shop?sslmode=disable", table: goods, password: geheim}]
  - {stage: unionByName, args: [{format: csv, path: "s3://raw/goods/*.csv"}]}
""")
    assert lineage.sources == ("jdbc:postgresql://db.example/shop/goods", "s3://raw/goods/*.csv")


def test_very_many_columns_of_a_source_are_the_source_alone() -> None:
    fields = ", ".join(f"{{selector: .a{number}, as: a{number}}}" for number in range(200))
    lineage = trace(f"""
fetch: {{url: "{SHOP}/"}}
pipeline:
  - {{stage: extract, args: [{fields}]}}
  - {{stage: "python_row_transform:clean"}}
""")
    assert read(lineage.output) == {OTHERS: {(SHOP, None)}}


def test_a_description_has_a_largest_length() -> None:
    text = "fetch: {url: 'https://shop.example/'}\npipeline: [{stage: extract, args: [{as: a, description: TEXT}]}]"
    assert trace(text.replace("TEXT", "x" * 1000)).output[0].description == "x" * 1000
    with pytest.raises(PipelineError) as caught:
        trace(text.replace("TEXT", "x" * 10_000))
    (problem,) = caught.value.problems
    assert "1000 characters" in problem.message
    assert problem.path.endswith("description")
