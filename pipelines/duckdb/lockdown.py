"""DuckDB connections that read the files of their views and nothing else, and the check of their statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import certifi
import duckdb

from pipelines.duckdb.file_types import FileTypes
from pipelines.duckdb.macros import load_macros
from pipelines.duckdb.views import WEB, View, quote_identifier, quote_literal

CLASSES = frozenset(
    {
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION"),
        *("LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "WINDOW"),
    }
)
SOURCES = frozenset({"BASE_TABLE", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST", "JOIN", "SUBQUERY", "TABLE_FUNCTION"})
HTTPFS = "httpfs"
QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_persistent_secrets": False,
    "max_temp_directory_size": "4GB",
    "threads": 2,
}
OWN = frozenset(Path(__file__).with_name("functions.txt").read_text("utf-8").split())
ALLOWED = OWN | frozenset(load_macros()) | {"cast_to_type"}  # also what the translation calls
ALLOWED_IN_FROM = frozenset({"unnest", "generate_series", "range"})


class Refused(Exception):
    """The statement may not run here. The message is a sentence for the caller."""


def open_database(memory: str, scratch: str) -> duckdb.DuckDBPyConnection:
    """Open an empty in-memory database for one statement."""
    connection = duckdb.connect(":memory:", config=CONFIG | {"memory_limit": memory, "temp_directory": scratch})
    connection.execute("SET TimeZone = 'UTC'; SET default_null_order = 'nulls_last'")
    connection.execute("SET ieee_floating_point_ops = true")
    return connection


def lock_down(
    connection: duckdb.DuckDBPyConnection,
    views: Sequence[View],
    file_types: FileTypes,
    macros: Sequence[str] = (),
    target: str | None = None,
) -> None:
    """Give an empty database these views and macros; its configuration can never be changed again.

    It can write the file `target` and no other; with it, the progress of queries is measured.
    """
    load_readers(connection, [file for view in views for file in view.files])
    for macro in macros:
        connection.execute(macro)
    for view in views:
        connection.execute(f"CREATE VIEW {quote_identifier(view.name)} AS {file_types.define(connection, view)}")
    paths = [file for view in views for file in view.files]
    if target is not None:
        connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
        paths.append(target)
    connection.execute(f"SET allowed_paths = [{', '.join(map(quote_literal, paths))}]")
    connection.execute("SET enable_external_access = false; SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")


def load_readers(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    """Load the extension that reads signed web addresses, if one of the files has one. It has no credentials."""
    if not any(file.startswith(WEB) for file in files):
        return
    connection.execute(f"LOAD {quote_literal(_find_extension(HTTPFS))}")
    connection.execute("SET http_timeout = 30; SET http_retries = 3; SET http_keep_alive = true")
    connection.execute(f"SET ca_cert_file = {quote_literal(certifi.where())}")


def load_avro(connection: duckdb.DuckDBPyConnection) -> None:
    """Load the extension that reads Avro."""
    connection.execute(f"LOAD {quote_literal(_find_extension('avro'))}")


@cache
def _find_extension(name: str) -> str:
    """Return the file of an extension of DuckDB, which a Python package of its own has installed."""
    spec = find_spec(f"duckdb_extension_{name}")
    folders = spec.submodule_search_locations if spec else None
    files = [each for folder in folders or () for each in Path(folder).rglob(f"{name}.duckdb_extension")]
    if not files:
        raise duckdb.IOException(f"The Python package duckdb-extension-{name} is not installed.")
    return str(files[0])


@cache
def _open_parser() -> duckdb.DuckDBPyConnection:
    """Open an empty database that only parses."""
    return duckdb.connect(":memory:", config=CONFIG | {"enable_external_access": False, "lock_configuration": True})


def check_statement(sql: str, views: Sequence[View]) -> None:
    """Parse the statement with DuckDB and allow only listed syntax, functions and views.

    Raises Refused unless it is exactly one SELECT.
    """
    statements = _open_parser().extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Refused("Exactly one query is allowed.")
    (text,) = _open_parser().execute("SELECT json_serialize_sql(?)", [sql]).fetchone() or ("{}",)
    tree = json.loads(text)
    if tree.get("error", True):
        raise Refused("Exactly one query is allowed.")
    _check_tree(tree["statements"], frozenset(view.name for view in views))


def _check_tree(node: Any, tables: frozenset[str]) -> None:
    """Check a part of the syntax tree. `tables` are the views and common table expressions visible to it."""
    if isinstance(node, list):
        for item in cast(list[Any], node):
            _check_tree(item, tables)
    elif isinstance(node, dict):
        fields = cast(dict[str, Any], node)
        _check_node(fields, tables)
        for entry in fields.get("cte_map", {}).get("map", ()):
            recursive = entry["value"]["query"]["node"]["type"] == "RECURSIVE_CTE_NODE"
            name = frozenset({entry["key"].lower()})
            _check_tree(entry["value"], tables | name if recursive else tables)
            tables |= name
        for key, value in fields.items():
            if key != "cte_map":
                _check_tree(value, tables)


def _check_node(node: dict[str, Any], tables: frozenset[str]) -> None:
    if "class" in node:
        _check_expression(node)
    elif "alias" in node and "sample" in node:
        _check_source(node, tables)
    elif str(node.get("type", "")).endswith("_NODE"):
        _require(node["type"] in QUERIES, "a statement")


def _check_expression(node: dict[str, Any]) -> None:
    kind = node["class"]
    _require(kind in CLASSES, str(kind).lower())
    if kind in ("FUNCTION", "WINDOW"):
        name = node["function_name"].lower()
        _require(name in ALLOWED and node["schema"] in ("", "main") and not node["catalog"], f"the function {name}")


def _check_source(node: dict[str, Any], tables: frozenset[str]) -> None:
    kind = node["type"]
    _require(kind in SOURCES, str(kind).lower())
    if kind == "TABLE_FUNCTION":
        _require(node["function"]["function_name"].lower() in ALLOWED_IN_FROM, "a function that is read from")
    if kind == "BASE_TABLE":
        known = node["table_name"].lower() in tables and not node["schema_name"] and not node["catalog_name"]
        _require(known, f"the table {node['table_name']}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Refused(f"This query uses {what}, which is not available here.")
