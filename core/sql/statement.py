"""Reads one request's SQL: a query, the explanation of a query, or a question about names (SHOW, DESCRIBE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token

from core.errors import BadInput
from core.sql.names import TableName


class Reading(Trino):
    """Trino's dialect for requests: a command's words are words, so that SHOW can be read and the rest be refused."""

    class Tokenizer(Trino.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()


TRINO = Reading()
MAX_LENGTH = 100_000
# sqlglot answers some malformed texts with these instead of its own errors
PARSER_ERRORS = (SqlglotError, TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError)
ONLY_READS = "Only SELECT, WITH … SELECT, VALUES, SHOW, DESCRIBE and EXPLAIN are allowed here; nothing can be written."


@dataclass(frozen=True, slots=True)
class Query:
    tree: exp.Expr
    explain: bool = False


@dataclass(frozen=True, slots=True)
class ShowCatalogs:
    pass


@dataclass(frozen=True, slots=True)
class ShowSchemas:
    catalog: str | None


@dataclass(frozen=True, slots=True)
class ShowTables:
    schema: str | None
    catalog: str | None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    table: TableName


Statement = Query | ShowCatalogs | ShowSchemas | ShowTables | ShowColumns


def parse(sql: str) -> Statement:
    """The one statement that `sql` holds, in Trino's dialect.

    Raises:
        BadInput: nothing, more than one statement, something that writes, or text that does not parse.
    """
    tokens = _tokens(sql)
    words = [token.text.upper() for token in tokens[:2]]
    if words[0] == "SHOW":
        return _show(tokens[1:])
    if words[0] in ("DESCRIBE", "DESC"):
        return ShowColumns(_table_name(_parts(tokens[1:])))
    if words[0] != "EXPLAIN":
        return Query(_query(tokens, sql))
    if words[1:] in (["ANALYZE"], ["("]):
        raise BadInput("EXPLAIN takes a query and no options here.")
    return Query(_query(tokens[1:], sql), explain=True)


def _tokens(sql: str) -> list[Token]:
    if len(sql) > MAX_LENGTH:
        raise BadInput(f"The SQL is longer than {MAX_LENGTH:,} characters.")
    try:
        tokens = TRINO.tokenize(sql)
    except PARSER_ERRORS:
        raise BadInput("The SQL cannot be read: a quote or a comment is not closed.") from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise BadInput("The SQL is empty.")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise BadInput("One statement a request, please: the SQL holds more than one.")
    return tokens


def _query(tokens: list[Token], sql: str) -> exp.Expr:
    if not tokens:
        raise BadInput("EXPLAIN needs a query.")
    if tokens[0].text.upper() not in ("SELECT", "WITH", "VALUES", "("):
        raise BadInput(ONLY_READS)
    try:
        trees = TRINO.parser().parse(tokens, sql)
    except ParseError as error:
        raise BadInput(_located(error)) from None
    except PARSER_ERRORS:
        raise BadInput("The SQL cannot be read.") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise BadInput(ONLY_READS)
    return trees[0]


def _located(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    where = f" near line {first.get('line')}, column {first.get('col')}" if first.get("line") else ""
    reason = str(first.get("description", "")).rstrip(".")
    told = "something is missing" if "<class" in reason else reason or "unexpected text"
    return f"The SQL does not parse{where}: {told}."


def _show(tokens: list[Token]) -> Statement:
    what = tokens[0].text.upper() if tokens else ""
    parts = _parts(tokens[2:]) if len(tokens) > 1 and tokens[1].text.upper() in ("FROM", "IN") else []
    if len(tokens) > 1 and not parts:
        raise BadInput(f"SHOW {what} is understood with FROM and a name, nothing else.")
    if what == "CATALOGS" and not parts:
        return ShowCatalogs()
    if what == "SCHEMAS" and len(parts) <= 1:
        return ShowSchemas(parts[0] if parts else None)
    if what == "TABLES" and len(parts) <= 2:
        return ShowTables(parts[-1] if parts else None, parts[0] if len(parts) == 2 else None)
    if what == "COLUMNS":
        return ShowColumns(_table_name(parts))
    raise BadInput("SHOW is understood for CATALOGS, SCHEMAS, TABLES and COLUMNS.")


def _parts(tokens: list[Token]) -> list[str]:
    """`a . b . c` → [a, b, c] in lower case; empty when the tokens are not a dotted name."""
    dots = [token.token_type is TokenType.DOT for token in tokens]
    well_formed = len(tokens) % 2 == 1 and all(dot == (i % 2 == 1) for i, dot in enumerate(dots))
    return [token.text.lower() for token in tokens[::2]] if well_formed else []


def _table_name(parts: list[str]) -> TableName:
    if not 1 <= len(parts) <= 3:
        raise BadInput("A table is named table, schema.table or catalog.schema.table.")
    return TableName(*reversed(parts))
