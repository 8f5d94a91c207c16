"""The text that Trino gets: the user's own, over Trino's names of the tables."""

from __future__ import annotations

import pytest

from core.data.sql.catalog import Table
from core.data.sql.engine import Relation
from core.data.sql.trino.text import write_page
from pipelines.errors import SqlError
from pipelines.sql.names import TableName
from pipelines.sql.statement import Select, parse

BOOKS = Relation(Table("1", "shop", "books", (), "parquet", (), None, None, None), ("hive_ro", "org_1", "t_1"))
NAMES = {TableName("books"): BOOKS, TableName("books", "shop"): BOOKS}
TABLE = '"hive_ro"."org_1"."t_1"'


def write(sql: str, limit: int | None = 10, offset: int = 0) -> str:
    parsed = parse(sql)
    assert isinstance(parsed, Select)
    return write_page(parsed, NAMES, limit, offset)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT DECIMAL '2.345', 1 <> ALL (VALUES 1)", "SELECT DECIMAL '2.345', 1 <> ALL (VALUES 1)"),
        ("SELECT title FROM books b", f"SELECT title FROM {TABLE} b"),
        ("SELECT title FROM Shop.Books", f'SELECT title FROM {TABLE} AS "books"'),
        (
            "SELECT shop.books.title FROM shop.books WHERE shop.books.price > 1",
            f'SELECT books.title FROM {TABLE} AS "books" WHERE books.price > 1',
        ),
        ("WITH books AS (SELECT 1 AS x) SELECT x FROM books", "WITH books AS (SELECT 1 AS x) SELECT x FROM books"),
        (
            "SELECT 'FROM books', \"books\".title FROM books",
            f'SELECT \'FROM books\', "books".title FROM {TABLE} AS "books"',
        ),
        ("SELECT 1 AS only", "SELECT 1 AS only"),
        ("SELECT 1 AS limit, 2 AS offset, 3 AS fetch", "SELECT 1 AS limit, 2 AS offset, 3 AS fetch"),
    ],
)
def test_only_names_of_tables_are_replaced(sql: str, text: str) -> None:
    assert write(sql) == f"{text}\nOFFSET 0 LIMIT 10"


@pytest.mark.parametrize(
    ("bounds", "limit", "offset", "page"),
    [
        ("", None, 0, "OFFSET 0"),
        ("LIMIT 5", 10, 0, "OFFSET 0 LIMIT 5"),
        ("LIMIT 5", 10, 3, "OFFSET 3 LIMIT 2"),
        ("LIMIT 50", 10, 3, "OFFSET 3 LIMIT 10"),
        ("OFFSET 2", 10, 3, "OFFSET 5 LIMIT 10"),
        ("OFFSET 2 ROWS LIMIT 5", 10, 1, "OFFSET 3 LIMIT 4"),
        ("OFFSET 2 ROWS FETCH FIRST 5 ROWS ONLY", 10, 1, "OFFSET 3 LIMIT 4"),
        ("FETCH NEXT 5 ROWS ONLY", 2, 0, "OFFSET 0 LIMIT 2"),
    ],
)
def test_a_page_is_cut_within_the_bounds_of_the_query(bounds: str, limit: int | None, offset: int, page: str) -> None:
    sql = "SELECT * FROM (SELECT 1 AS x LIMIT 9) AS t ORDER BY x"
    assert write(f"{sql} {bounds}", limit, offset) == f"{sql}\n{page}"


@pytest.mark.parametrize("sql", ["VALUES 1", "SELECT 1 AS x FETCH FIRST 1 ROW WITH TIES", "(SELECT 1 AS x LIMIT 2)"])
def test_other_queries_are_cut_from_outside(sql: str) -> None:
    assert write(sql).startswith(f'SELECT * FROM (\n{sql}\n) AS "page"')


def test_comments_and_the_word_explain_are_blank() -> None:
    text = write("EXPLAIN SELECT /* FROM books */ 1 -- LIMIT 3\n, 2")
    assert text.split() == ["SELECT", "1", ",", "2", "OFFSET", "0", "LIMIT", "10"]
    assert "books" not in text


@pytest.mark.parametrize("sql", ['SELECT U&"\\0024path" FROM books', "SELECT 1_000", "SELECT x::int", "SELECT `x`"])
def test_what_trino_reads_otherwise_is_refused(sql: str) -> None:
    with pytest.raises(SqlError) as error:
        parse(sql)
    assert error.value.code == "invalid-sql"
