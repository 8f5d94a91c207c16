"""Parsing of a request's SQL: a query, EXPLAIN of a query, or a question about names (SHOW, DESCRIBE); and its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.parsers.trino import TrinoParser
from sqlglot.tokenizer_core import Token

from pipelines.errors import SqlError
from pipelines.sql.column_names import UNNAMED
from pipelines.sql.names import TableName, suggest

SYNTAX_OF_CALLS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "JSON_OBJECT", "JSON_QUERY",
                   "JSON_VALUE", "LISTAGG", "NORMALIZE")  # fmt: skip


class RequestDialect(Trino):
    """Trino's dialect without sqlglot's opaque commands and its knowledge of other dialects' functions.

    SHOW is parsed here, and all other commands are refused. Calls stay as they are written, except those with a syntax
    of their own, so that each is looked up under its own name.
    """

    class Tokenizer(Trino.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(TrinoParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: TrinoParser.FUNCTION_PARSERS[name] for name in SYNTAX_OF_CALLS
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: TrinoParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "IF")
        }


TRINO = RequestDialect()
MAX_LENGTH = 100_000
# sqlglot raises these, besides its own errors, for some malformed texts
PARSER_ERRORS = (SqlglotError, TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError)
SYMBOL = re.compile(r"[=+\-*/%()\[\],.:?@$#]|<>|!=|<=?|>=?|\|\||[-=]>")  # some are refused later
# a name in quotes, a text or a comment stays as it is
_TRIAL_NAME = re.compile(
    r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|(\b[a-z_]\w*@[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)""",
    re.IGNORECASE | re.DOTALL,
)
SECONDS = re.compile(r":\d{1,2}\.(\d+)")
LITERAL_DIGITS = "literal_digits"  # in the meta data of a literal with a time
NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
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
    """A query, or with `explain` the question for its plan.

    `text` is the query as it was sent, with spaces for its comments and for EXPLAIN, so that the positions in the tree
    are those of the text.
    """

    tree: exp.Expr
    text: str
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

    Raises SqlError for no statement, several, one that writes, and text that does not parse.
    """
    sql = _quote_trials(sql)
    tokens = _tokenize(sql)
    words = [token.text.upper() for token in tokens[:2]]
    if words[0] == "SHOW":
        return _parse_show(tokens[1:])
    if words[0] in ("DESCRIBE", "DESC"):
        return ShowColumns(_parse_table_name(_split_name(tokens[1:])))
    if words[0] != "EXPLAIN":
        return Select(_parse_query(tokens, sql), _blank_comments(tokens, sql))
    if words[1:] in (["ANALYZE"], ["("]):
        raise SqlError("EXPLAIN takes a query and no options here.", code="invalid-sql")
    return Select(_parse_query(tokens[1:], sql), _blank_comments(tokens[1:], sql), explain=True)


def _quote_trials(sql: str) -> str:
    """Quote names like `books@01a1fe8d-…`, of the rows that an execution has kept apart."""
    return _TRIAL_NAME.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], sql)


def tokenize(sql: str) -> list[Token]:
    """Return the tokens of a text that was parsed before."""
    return TRINO.tokenize(sql)


def write(tree: exp.Expr, dialect: str) -> str:
    """Return the text of a query in an engine's dialect. Raises SqlError for syntax that the dialect does not have."""
    try:
        return tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if deep else str(error).splitlines()[0].rstrip(".")
        sentence = f"The query uses something that this engine does not have: {reason}."
        raise SqlError(sentence, code="unsupported-sql") from None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers of a query's own LIMIT and OFFSET."""

    limit: int | None
    offset: int

    def cut(self, limit: int | None, offset: int) -> tuple[int | None, int]:
        """Return the limit and the offset of a page of the rows."""
        rest = None if self.limit is None else max(self.limit - offset, 0)
        known = [each for each in (rest, limit) if each is not None]
        return (min(known) if known else None), self.offset + offset


def find_bounds(tree: exp.Expr) -> Bounds | None:
    """Return the bounds of a query; None where a page of it has to be taken from outside."""
    if not isinstance(tree, exp.Select | exp.SetOperation):
        return None
    limit, offset = _get_number(tree, "limit"), _get_number(tree, "offset")
    if offset is None or (limit is None and tree.args.get("limit") is not None):
        return None
    return Bounds(limit, offset)


def list_value_columns(values: exp.Values) -> list[exp.Identifier]:
    """Return the names of the columns of a VALUES without names."""
    return [exp.to_identifier(f"{UNNAMED}{position}") for position in range(len(values.expressions[0].expressions))]


def _tokenize(sql: str) -> list[Token]:
    if len(sql) > MAX_LENGTH:
        raise SqlError(f"The SQL is longer than {MAX_LENGTH:,} characters.", code="invalid-sql")
    try:
        tokens = TRINO.tokenize(sql)
    except PARSER_ERRORS:
        raise SqlError("The SQL cannot be read: a quote or a comment is not closed.", code="invalid-sql") from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise SqlError("The SQL is empty.", code="invalid-sql")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise SqlError("A request takes one statement; this SQL has more than one.", code="invalid-sql")
    _check_symbols(tokens, sql)
    return tokens


def _check_symbols(tokens: list[Token], sql: str) -> None:
    """Refuse syntax of other dialects that the parser takes, and tokens that differ from Trino's."""
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        written = sql[token.start : token.end + 1]
        if written.upper() == "AS" and following is not None and following.token_type is TokenType.STRING:
            token, written = following, sql[following.start : following.end + 1]
            sentence = f"The SQL does not parse at {_locate(sql, token.start)}: unexpected {written[:60]}"
            raise SqlError(f'{sentence}; an alias is written x or "x".', code="invalid-sql")
        joined = following is not None and following.start == token.end + 1
        if token.token_type is TokenType.NUMBER and joined and following and following.token_type in NAMES:
            written += sql[following.start : following.end + 1]
        elif SYMBOL.fullmatch(written) or written[0].isalnum() or written[0] in "_\"'":
            continue
        hint = "; write CAST(value AS type)" if written == "::" else ""
        sentence = f"The SQL does not parse at {_locate(sql, token.start)}: unexpected '{written[:60]}'{hint}."
        raise SqlError(sentence, code="invalid-sql")


def _blank_comments(tokens: list[Token], sql: str) -> str:
    """Return the text with spaces for all that is no token: engines do not agree on where comments end."""
    text = list(re.sub(r"[^\n]", " ", sql))
    for token in tokens:
        text[token.start : token.end + 1] = sql[token.start : token.end + 1]
    return "".join(text).rstrip()


def _parse_query(tokens: list[Token], sql: str) -> exp.Expr:
    if not tokens:
        raise SqlError("EXPLAIN needs a query.", code="invalid-sql")
    if (word := tokens[0].text.upper()) not in QUERY_WORDS:
        if word in OTHER_WORDS:
            raise SqlError(ONLY_READS, code="read-only")
        meant = suggest(word, FIRST_WORDS)
        sentence = f"The SQL does not parse at {_locate(sql, tokens[0].start)}: no statement begins with "
        raise SqlError(f"{sentence}'{tokens[0].text[:60]}'{meant}.", code="invalid-sql")
    try:
        trees = TRINO.parser().parse(tokens, sql)
    except ParseError as error:
        raise SqlError(_describe_error(error), code="invalid-sql") from None
    except PARSER_ERRORS:
        raise SqlError("The SQL cannot be read.", code="invalid-sql") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise SqlError(ONLY_READS, code="read-only")
    _type_literals(trees[0], tokens)
    for node in list(trees[0].find_all(exp.Anonymous)):
        if node.name.upper() == "ALL" and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
            node.replace(exp.All(this=exp.select("*").from_(exp.Subquery(this=node.expressions[0]))))
    return trees[0]


def _type_literals(tree: exp.Expr, tokens: list[Token]) -> None:
    """Give `DECIMAL '2.345'` the type that its digits have; the parser takes it for a CAST without parameters.

    A TIMESTAMP or TIME gets their number behind the point as meta data.
    """
    pairs = pairwise(tokens)
    words = {
        text.start: word.text.upper()
        for word, text in pairs
        if word.text.upper() in ("DECIMAL", "TIMESTAMP", "TIME") and text.token_type is TokenType.STRING
    }
    for node in tree.find_all(exp.Cast) if words else ():
        word = words.get(node.this.meta.get("start", -1)) if isinstance(node.this, exp.Literal) else None
        if word in ("TIMESTAMP", "TIME"):
            fraction = SECONDS.search(node.this.name)
            node.meta[LITERAL_DIGITS] = len(fraction[1]) if fraction else 0
        elif word is not None:
            whole, _, fraction = node.this.name.strip().lstrip("+-").partition(".")
            digits = max(len(whole.lstrip("0")) + len(fraction), 1)
            node.set("to", exp.DataType.build(f"DECIMAL({digits}, {len(fraction)})"))


def _get_number(tree: exp.Expr, clause: str) -> int | None:
    """Return the number of a LIMIT or OFFSET. Without the clause it is None or 0; None for another expression."""
    node = tree.args.get(clause)
    if node is None:
        return 0 if clause == "offset" else None
    options = node.args.get("limit_options") if isinstance(node, exp.Fetch) else None
    if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
        return None
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    return int(value.name) if isinstance(value, exp.Literal) and value.name.isdecimal() else None


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
        raise SqlError(f"SHOW {what} accepts FROM and a name, nothing else.", code="invalid-sql")
    if what == "CATALOGS" and not parts:
        return ShowCatalogs()
    if what == "SCHEMAS" and len(parts) <= 1:
        return ShowSchemas(parts[0] if parts else None)
    if what == "TABLES" and len(parts) <= 2:
        return ShowTables(parts[-1] if parts else None, parts[0] if len(parts) == 2 else None)
    if what == "COLUMNS":
        return ShowColumns(_parse_table_name(parts))
    raise SqlError("SHOW works for CATALOGS, SCHEMAS, TABLES and COLUMNS.", code="invalid-sql")


def _split_name(tokens: list[Token]) -> list[str]:
    """Return the parts of a dotted name in lower case; an empty list for other tokens."""
    dots = [token.token_type is TokenType.DOT for token in tokens]
    well_formed = len(tokens) % 2 == 1 and all(dot == (i % 2 == 1) for i, dot in enumerate(dots))
    return [token.text.lower() for token in tokens[::2]] if well_formed else []


def _parse_table_name(parts: list[str]) -> TableName:
    if not 1 <= len(parts) <= 3:
        raise SqlError("A table is named table, schema.table or catalog.schema.table.", code="invalid-sql")
    return TableName(*reversed(parts))
