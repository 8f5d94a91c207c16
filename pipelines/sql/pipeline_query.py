"""Statements of Trino's SQL in pipelines: over the rows so far and other tables, each with a name of one part."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.duckdb_text import write_duckdb
from pipelines.sql.gate import TRINO_FUNCTIONS, check_tree, find_references
from pipelines.sql.names import TableName
from pipelines.sql.scopes import Output
from pipelines.sql.signatures import load_aggregates
from pipelines.sql.statement import Select, parse

_REMEMBERED = 64  # a pipeline is checked and planned


@lru_cache(_REMEMBERED)
def parse_query(text: str) -> exp.Expr:
    """Return the tree of one query, which is not to be changed; raise SqlError for what DuckDB would not run."""
    tree = _parse(text)
    references = [name for _, name in find_references(tree)]
    write_duckdb(tree.copy(), dict.fromkeys(references))  # columns are not known here
    return tree


def has_aggregate(tree: exp.Expr) -> bool:
    """Return whether a query calls a function of a group of rows."""
    return any(each.name.lower() in load_aggregates() for each in tree.find_all(exp.Anonymous))


def translate_query(text: str, outputs: Mapping[str, Output]) -> str:
    """Return a query as DuckDB runs it over tables with these columns, named in lower case; raise SqlError."""
    return write_duckdb(_parse(text), {TableName(name): output for name, output in outputs.items()}, _quote_tables)


def _parse(text: str) -> exp.Expr:
    parsed = parse(text)
    if not isinstance(parsed, Select) or parsed.explain:
        raise SqlError("Only a query gives rows: SELECT, WITH … SELECT or VALUES.", code="invalid-sql")
    check_tree(parsed.tree, TRINO_FUNCTIONS)
    return parsed.tree


def _quote_tables(tree: exp.Expr) -> exp.Expr:
    for node, name in find_references(tree):
        node.set("this", exp.to_identifier(name.name, quoted=True))
    return tree
