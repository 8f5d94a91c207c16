"""Parsing of a request's SQL: a query, EXPLAIN of a query, or a question about names (SHOW, DESCRIBE); and its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token

from core.data.sql.names import TableName, suggest
from core.data.sql.rows import UNNAMED
from core.errors import BadInput


class RequestDialect(Trino):
    """Trino's dialect without sqlglot's opaque commands: SHOW is parsed here, and all others are refused."""

    class Tokenizer(Trino.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()


TRINO = RequestDialect()
MAX_LENGTH = 100_000
# sqlglot raises these, besides its own errors, for some malformed texts
PARSER_ERRORS = (SqlglotError, TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError)
QUERY_WORDS = ("SELECT", "WITH", "VALUES", "(")
FIRST_WORDS = ("select", "with", "values", "show", "describe", "explain")
OTHER_WORDS = frozenset(  # of statements that Trino or DuckDB have and that do more than read
    {
        *(
            "ALTER",
            "ANALYZE",
            "ATTACH",
            "BEGIN",
            "CALL",
            "CHECKPOINT",
            "COMMENT",
            "COMMIT",
            "COPY",
            "CREATE",
            "DEALLOCATE",
        ),
        *(
            "DELETE",
            "DENY",
            "DETACH",
            "DROP",
            "EXECUTE",
            "EXPORT",
            "GRANT",
            "IMPORT",
            "INSERT",
            "INSTALL",
            "LOAD",
            "LOCK",
        ),
        *(
            "MERGE",
            "PRAGMA",
            "PREPARE",
            "REFRESH",
            "REPLACE",
            "RESET",
            "REVOKE",
            "ROLLBACK",
            "SET",
            "START",
            "TRUNCATE",
        ),
        *("UPDATE", "UPSERT", "USE", "VACUUM"),
    }
)
ONLY_READS = "Only SELECT, WITH … SELECT, VALUES, SHOW, DESCRIBE and EXPLAIN are allowed here; nothing can be written."


@dataclass(frozen=True, slots=True)
class Select:
    """A query, or with `explain` the question for its plan."""

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


NameQuestion = ShowCatalogs | ShowSchemas | ShowTables | ShowColumns
Statement = Select | NameQuestion


def parse(sql: str) -> Statement:
    """Parse exactly one statement in Trino's dialect.

    Raises BadInput for no statement, several, one that writes, and text that does not parse.
    """
    tokens = _tokenize(sql)
    words = [token.text.upper() for token in tokens[:2]]
    if words[0] == "SHOW":
        return _parse_show(tokens[1:])
    if words[0] in ("DESCRIBE", "DESC"):
        return ShowColumns(_parse_table_name(_split_name(tokens[1:])))
    if words[0] != "EXPLAIN":
        return Select(_parse_query(tokens, sql))
    if words[1:] in (["ANALYZE"], ["("]):
        raise BadInput("EXPLAIN takes a query and no options here.", code="invalid-sql")
    return Select(_parse_query(tokens[1:], sql), explain=True)


def write(tree: exp.Expr, dialect: str) -> str:
    """Return the text of a query in an engine's dialect. Raises BadInput for syntax that the dialect does not have."""
    try:
        return tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if deep else str(error).splitlines()[0].rstrip(".")
        sentence = f"The query uses something that this engine does not have: {reason}."
        raise BadInput(sentence, code="unsupported-sql") from None


def list_value_columns(values: exp.Values) -> list[exp.Identifier]:
    """Return the names of the columns of a VALUES that names none."""
    return [exp.to_identifier(f"{UNNAMED}{position}") for position in range(len(values.expressions[0].expressions))]


def _tokenize(sql: str) -> list[Token]:
    if len(sql) > MAX_LENGTH:
        raise BadInput(f"The SQL is longer than {MAX_LENGTH:,} characters.", code="invalid-sql")
    try:
        tokens = TRINO.tokenize(sql)
    except PARSER_ERRORS:
        raise BadInput("The SQL cannot be read: a quote or a comment is not closed.", code="invalid-sql") from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise BadInput("The SQL is empty.", code="invalid-sql")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise BadInput("A request takes one statement; this SQL has more than one.", code="invalid-sql")
    return tokens


def _parse_query(tokens: list[Token], sql: str) -> exp.Expr:
    if not tokens:
        raise BadInput("EXPLAIN needs a query.", code="invalid-sql")
    if (word := tokens[0].text.upper()) not in QUERY_WORDS:
        if word in OTHER_WORDS:
            raise BadInput(ONLY_READS, code="read-only")
        meant = suggest(word, FIRST_WORDS)
        sentence = f"The SQL does not parse at {_locate(sql, tokens[0].start)}: no statement begins with "
        raise BadInput(f"{sentence}'{tokens[0].text[:60]}'{meant}.", code="invalid-sql")
    try:
        trees = TRINO.parser().parse(tokens, sql)
    except ParseError as error:
        raise BadInput(_describe_error(error), code="invalid-sql") from None
    except PARSER_ERRORS:
        raise BadInput("The SQL cannot be read.", code="invalid-sql") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise BadInput(ONLY_READS, code="read-only")
    return trees[0]


def _locate(sql: str, start: int) -> str:
    before = sql[:start]
    return f"line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"


def _describe_error(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    where = f" near line {first.get('line')}, column {first.get('col')}" if first.get("line") else ""
    reason = str(first.get("description", "")).rstrip(".")
    problem = "something is missing" if "<class" in reason else reason or "unexpected text"
    return f"The SQL does not parse{where}: {problem}."


def _parse_show(tokens: list[Token]) -> Statement:
    what = tokens[0].text.upper() if tokens else ""
    parts = _split_name(tokens[2:]) if len(tokens) > 1 and tokens[1].text.upper() in ("FROM", "IN") else []
    if len(tokens) > 1 and not parts:
        raise BadInput(f"SHOW {what} accepts FROM and a name, nothing else.", code="invalid-sql")
    if what == "CATALOGS" and not parts:
        return ShowCatalogs()
    if what == "SCHEMAS" and len(parts) <= 1:
        return ShowSchemas(parts[0] if parts else None)
    if what == "TABLES" and len(parts) <= 2:
        return ShowTables(parts[-1] if parts else None, parts[0] if len(parts) == 2 else None)
    if what == "COLUMNS":
        return ShowColumns(_parse_table_name(parts))
    raise BadInput("SHOW works for CATALOGS, SCHEMAS, TABLES and COLUMNS.", code="invalid-sql")


def _split_name(tokens: list[Token]) -> list[str]:
    """Return the parts of a dotted name in lower case; an empty list for other tokens."""
    dots = [token.token_type is TokenType.DOT for token in tokens]
    well_formed = len(tokens) % 2 == 1 and all(dot == (i % 2 == 1) for i, dot in enumerate(dots))
    return [token.text.lower() for token in tokens[::2]] if well_formed else []


def _parse_table_name(parts: list[str]) -> TableName:
    if not 1 <= len(parts) <= 3:
        raise BadInput("A table is named table, schema.table or catalog.schema.table.", code="invalid-sql")
    return TableName(*reversed(parts))
