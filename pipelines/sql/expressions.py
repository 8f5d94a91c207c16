"""SQL of pipelines: parsed when the pipeline is checked, and limited to functions without side effects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator
from sqlglot import Dialect, exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from pipelines.errors import ArgumentError, RunError, SqlError
from pipelines.language.columns import ENGINE_COLUMNS, check_column_name
from pipelines.language.parameters import has_reference


class SqlDialect(StrEnum):
    """Whose SQL a query is, and so what runs it: Spark, or DuckDB as for the queries of the service."""

    SPARK = "spark"
    TRINO = "trino"


LONGEST = 20_000
ROWS = "rows"  # the view of the pipeline's rows
# functions that a pipeline's SQL must not call; they are removed from the driver's session too
REFUSED = frozenset(
    # call any Java method
    {"reflect", "try_reflect", "java_method"}
    # follow references of an XML document to URLs and the server's files
    | {"xpath", "xpath_boolean", "xpath_short", "xpath_int", "xpath_long", "xpath_float", "xpath_double"}
    | {"xpath_number", "xpath_string"}
    # read files with schemas or descriptors
    | {"from_xml", "schema_of_xml", "from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"}
    # reveal the server's files, user and programs
    | {"input_file_name", "input_file_block_start", "input_file_block_length"}
    | {"current_user", "user", "session_user", "version", "python_worker_logs"}
    # read tables at any path, where Delta's library is loaded
    | {"table_changes", "table_changes_by_path"}
    # refers to a function or column by a text, which is not checked
    | {"identifier"}
)
_END = "; \t\r\n"  # stripped from a statement, which runs in parentheses
# the hidden column with the paths of files, and its name where a column of the file is called _metadata
_METADATA = re.compile("_+metadata", re.IGNORECASE)
# parsed as columns, but functions, ORDER BY ALL or units of time
_NOT_COLUMNS = frozenset(
    {"current_time", "grouping__id", "all", "year", "quarter", "month", "week"}
    | {"day", "dayofyear", "hour", "minute", "second", "millisecond", "microsecond"}
)
_WHERE = "SELECT 1 FROM rows WHERE ("  # wraps an expression, to parse it
_SHOWN_BEFORE = 40  # characters of the SQL before an error
_REMEMBERED = 64  # a pipeline is checked and planned
_SPARK = Dialect.get_or_raise("spark")
# functions of a group of rows that the parser does not know as aggregates
AGGREGATES = frozenset(
    {"any", "every", "some", "mean", "std", "try_avg", "try_sum", "bitmap_and_agg", "count_min_sketch"}
    | {"histogram_numeric", "hll_sketch_agg", "hll_union_agg"}
    | {f"kll_{part}_agg_{type_}" for part in ("merge", "sketch") for type_ in ("bigint", "double", "float")}
    | {f"theta_{part}_agg" for part in ("intersection", "sketch", "union")}
)
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_QUOTED = (*_TEXTS, TokenType.IDENTIFIER)


def check_expression(text: str) -> str:
    """Return the text of an SQL expression without subqueries; raises ArgumentError for anything else."""
    _parse_expression(text)
    return text.rstrip(_END)


def check_query(text: str, tables: Iterable[str] = (), dialect: SqlDialect = SqlDialect.SPARK) -> str:
    """Return the text of one SELECT over the view `rows` and these tables; raises ArgumentError for anything else."""
    _parse_query(text, frozenset(name.casefold() for name in tables), dialect)
    return text.rstrip(_END)


def check_resolved(check: Callable[[str], str], text: str) -> str:
    """Check SQL again before it runs: the value of a parameter may look like an open parameter. Raises RunError."""
    try:
        return check(text)
    except ArgumentError as error:
        raise RunError(str(error)) from None


def parse_condition(text: str) -> exp.Expr:
    """Return the tree of an expression that `check_expression` accepts."""
    return _parse(f"{_WHERE}{text.rstrip(_END)}\n)").args["where"].this


def find_expression_columns(text: str) -> tuple[str, ...]:
    """Return the columns that an expression refers to; for `a.b` that is `a`, which may be a struct."""
    return () if has_reference(text) else _parse_expression(text)


def find_query_columns(
    text: str, tables: Iterable[str] = (), dialect: SqlDialect = SqlDialect.SPARK
) -> tuple[str, ...]:
    """Return the columns that a query takes from the view `rows`, or nothing for a query too complex to decide.

    Names are ambiguous in subqueries, joins, generators and lambdas, and where the query defines them itself; in joins
    those with the alias of a table are not.
    """
    if has_reference(text):
        return ()
    own = (name for table, name in find_qualified_columns(text, dialect) if table == ROWS)
    return (*_parse_query(text, frozenset(name.casefold() for name in tables), dialect), *own)


@lru_cache(_REMEMBERED)
def find_qualified_columns(text: str, dialect: SqlDialect = SqlDialect.SPARK) -> tuple[tuple[str, str], ...]:
    """Return the names of tables and of their columns that one SELECT with joins writes as `alias.column`.

    There are none in queries with subqueries and generators.
    """
    tree = None if has_reference(text) else _parse(text.rstrip(_END), dialect)
    sources = (exp.Query, exp.UDTF, exp.Lateral, exp.Pivot, exp.CTE)
    if not isinstance(tree, exp.Select) or any(each is not tree for each in tree.find_all(*sources)):
        return ()
    tables = {each.alias_or_name.casefold(): each.name.casefold() for each in tree.find_all(exp.Table)}
    variables = {each.name.casefold() for function in tree.find_all(exp.Lambda) for each in function.expressions}
    columns = [each.parts for each in tree.find_all(exp.Column, bfs=False) if each.table]
    alone = {each.name.casefold() for each in tree.find_all(exp.Column) if not each.table} | variables
    found = ((parts[0].name.casefold(), parts[1]) for parts in columns)
    named = ((tables[alias], name.name) for alias, name in found if alias in tables.keys() - alone and _is_name(name))
    return tuple(dict.fromkeys(named))


def _is_name(part: exp.Expr) -> bool:
    return isinstance(part, exp.Identifier)


@lru_cache(_REMEMBERED)
def _parse_expression(text: str) -> tuple[str, ...]:
    tree = _parse(f"{_WHERE}{text.rstrip(_END)}\n)")
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Query))) > 1:
        raise ArgumentError("it must be one SQL expression over the row's columns", "invalid-sql")
    own = {each.name.casefold() for function in tree.find_all(exp.Lambda) for each in function.expressions}
    return tuple(name for name in _list_names(tree.find_all(exp.Column, bfs=False)) if name.casefold() not in own)


@lru_cache(_REMEMBERED)
def _parse_query(text: str, tables: frozenset[str], dialect: SqlDialect) -> tuple[str, ...]:
    tree = _parse(text.rstrip(_END), dialect)
    if not isinstance(tree, exp.Query):
        raise ArgumentError("it must be one SELECT over the view 'rows'", "invalid-sql")
    for name in filter(None, tree.named_selects):
        check_column_name(name)
    views = {ROWS, *tables, *(each.alias_or_name.casefold() for each in tree.find_all(exp.CTE))}
    for table in tree.find_all(exp.Table):
        if table.name.casefold() not in views or table.db:
            others = f", and 'tables' has {', '.join(sorted(tables))}" if tables else ""
            message = f"there is no table '{table.sql()}'; the rows are called '{ROWS}'{others}"
            raise ArgumentError(message, "unknown-table")
    if not isinstance(tree, exp.Select) or not _is_plain(tree):
        return ()
    alone = [each for each in tree.find_all(exp.Column, bfs=False) if not each.table]
    own = {id(each.this) for each in alone}
    given = {each.name.casefold() for each in tree.find_all(exp.Identifier) if id(each) not in own}
    return tuple(name for name in _list_names(alone) if name.casefold() not in given)


def _is_plain(select: exp.Select) -> bool:
    """Return whether the query selects only from `rows`, and all its columns have names."""
    sources = (exp.Table, exp.Query, exp.UDTF, exp.Join, exp.Lateral, exp.Pivot)
    if [type(each) for each in select.find_all(*sources)] != [exp.Select, exp.Table] or not _reads_rows(select):
        return False
    named = (exp.Star, exp.Column, exp.Alias, exp.Aliases)
    return all(isinstance(each, named) and not _is_fields(each) for each in select.expressions)


def _reads_rows(tree: exp.Expr) -> bool:
    return any(each.name.casefold() == ROWS for each in tree.find_all(exp.Table))


def _is_fields(selected: exp.Expr) -> bool:
    """Return whether an expression is `a.*`, which expands to the fields of a struct."""
    return isinstance(selected, exp.Column) and selected.is_star


def _list_names(columns: Iterable[exp.Column]) -> tuple[str, ...]:
    names = dict.fromkeys(each.parts[0].name for each in columns)
    return tuple(name for name in names if name.casefold() not in _NOT_COLUMNS)


def find_engine_columns(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> tuple[str, ...]:
    """Return the engine columns that a query selects by name, which makes them ordinary output columns."""
    tree = None if has_reference(query) else _parse(query, dialect)
    names = tree.named_selects if isinstance(tree, exp.Query) else []
    return tuple(name for name in names if name in ENGINE_COLUMNS and name != "_ordinal")


def list_selected_names(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> tuple[str, ...]:
    """Return the names of the columns that a query gives, apart from `*`; Spark names an expression by its text."""
    return () if has_reference(query) else list_output_names(parse_query_tree(query, dialect), dialect)


def list_output_names(tree: exp.Expr, dialect: SqlDialect) -> tuple[str, ...]:
    """Return the names of the columns that a parsed query gives, as `list_selected_names`."""
    selects = tree.selects if isinstance(tree, exp.Query) else []
    names = (
        each.output_name or (f"_col{place}" if dialect is SqlDialect.TRINO else each.sql("spark"))
        for place, each in enumerate(selects)
    )
    return tuple(name for each, name in zip(selects, names, strict=True) if not each.is_star)


def parse_query_tree(text: str, dialect: SqlDialect) -> exp.Expr:
    """Return the tree of a query that `check_query` accepts."""
    return _parse(text.rstrip(_END), dialect)


def has_star(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> bool:
    """Return whether a query selects all columns of a table."""
    tree = _parse(query.rstrip(_END), dialect)
    return any(each.is_star for each in tree.selects) if isinstance(tree, exp.Query) else True


def reads_rows(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> bool:
    """Return whether a query reads the view `rows`."""
    return _reads_rows(_parse(query.rstrip(_END), dialect))


def is_select_all(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> bool:
    """Return whether a query selects all columns of `rows`, or may do so once its parameters have values."""
    tree = None if has_reference(query) else _parse(query.rstrip(_END), dialect)
    return not isinstance(tree, exp.Query) or _selects_rows(tree)


def selects_ordinal(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> bool:
    """Return whether a query selects the rows' position, by name or with `*`."""
    tree = _parse(query.rstrip(_END), dialect)
    return isinstance(tree, exp.Query) and (_selects_rows(tree) or "_ordinal" in tree.named_selects)


def _selects_rows(tree: exp.Query) -> bool:
    """Return whether a query selects `*` from the view `rows`, with or without other tables."""
    if not tree.is_star or not _reads_rows(tree):
        return False
    if not isinstance(tree, exp.Select):
        return True
    tables = {each.alias_or_name.casefold(): each.name.casefold() for each in tree.find_all(exp.Table)}
    stars = [each.table.casefold() for each in tree.expressions if isinstance(each, exp.Column) and each.is_star]
    return len(stars) < sum(each.is_star for each in tree.expressions) or any(
        tables.get(each, ROWS) == ROWS for each in stars
    )


def has_repeated_reads(query: str, tables: Iterable[str] = ()) -> bool:
    """Return whether Spark computes the rows more than once: to join them with themselves, or to sample a sort.

    Those of the other `tables` are read from files each time.
    """
    tree, others = _parse(query), {name.casefold() for name in tables}
    sorts = any(isinstance(order.parent, exp.Query) for order in tree.find_all(exp.Order))
    return sorts or sum(each.name.casefold() not in others for each in tree.find_all(exp.Table)) > 1


def has_order(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> bool:
    """Return whether a query ends with ORDER BY."""
    tree: Any = _parse(query.rstrip(_END), dialect)
    while isinstance(tree, exp.Query):
        if tree.args.get("order"):
            return True
        tree = tree.this if isinstance(tree, exp.Subquery) else None
    return False


def has_limit(query: str) -> bool:
    """Return whether a query that works row by row keeps some of its rows only, by their number."""
    tree = _parse(query.rstrip(_END))
    return any(tree.args.get(each) for each in ("limit", "offset"))


def is_row_wise(query: str, dialect: SqlDialect = SqlDialect.SPARK) -> bool:
    """Return whether a query is one SELECT that works row by row: no aggregate, DISTINCT, join, window or subquery."""
    tree = _parse(query.rstrip(_END), dialect)
    if not isinstance(tree, exp.Select) or not query.lstrip().casefold().startswith("select"):
        return False
    if any(tree.args.get(each) for each in ("distinct", "group", "having")):
        return False
    sources = (exp.Table, exp.Query, exp.Join, exp.Lateral, exp.Pivot)
    if [type(each) for each in tree.find_all(*sources)] != [exp.Select, exp.Table] or not _reads_rows(tree):
        return False
    if tree.find(exp.AggFunc, exp.Window, exp.Any):
        return False
    if dialect is SqlDialect.TRINO:
        from pipelines.sql.pipeline_query import has_aggregate

        return not has_aggregate(tree)
    return not any(each.name.casefold() in AGGREGATES for each in tree.find_all(exp.Anonymous))


def add_selected(query: str, selected: str) -> str:
    """Return a query that works row by row with one more expression at the end of its SELECT."""
    depth = 0
    for token in _SPARK.tokenize(query):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if not depth and token.token_type is TokenType.FROM:
            return f"{query[: token.start]}, {selected} {query[token.start :]}"
    raise ArgumentError("it must be one SELECT over the view 'rows'", "invalid-sql")


def _parse(text: str, dialect: SqlDialect = SqlDialect.SPARK) -> exp.Expr:
    if len(text) > LONGEST:
        raise ArgumentError(f"SQL has at most {LONGEST:,} characters", "invalid-sql")
    if dialect is SqlDialect.TRINO:
        from pipelines.sql.pipeline_query import parse_query  # here, because few pipelines have one

        try:
            return parse_query(text).copy()
        except SqlError as error:
            sentence = str(error).rstrip(".")
            hint = "this is Trino's SQL, and dialect: spark is Spark's"
            raise ArgumentError(f"{sentence[0].lower()}{sentence[1:]}; {hint}", "invalid-sql") from None
    try:
        tokens = _SPARK.tokenize(text)
        _check_tokens(tokens)
        trees = _SPARK.parser().parse(tokens, text)
    except ParseError as error:
        raise ArgumentError(f"not SQL: {_describe_error(error)}", "invalid-sql") from None
    except TokenError:
        raise ArgumentError("not SQL: a quote or comment does not end", "invalid-sql") from None
    except IndexError:
        raise ArgumentError("not SQL: map takes pairs of a key and a value", "invalid-sql") from None
    except RecursionError:
        raise ArgumentError("not SQL: it is nested too deep", "invalid-sql") from None
    if len(trees) != 1 or trees[0] is None:
        raise ArgumentError("it must be one statement", "invalid-sql")
    tree = trees[0]
    if tree.find(exp.Command, exp.QueryTransform, exp.Into):
        raise ArgumentError("it must only read", "invalid-sql")
    for function in tree.find_all(exp.Func):
        name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
        if name.casefold() in REFUSED:
            raise ArgumentError(f"the function {name} is not allowed", "forbidden-function")
    return tree


def _describe_error(error: ParseError) -> str:
    """Return sqlglot's message without its class names, and with the SQL before the error."""
    first = error.errors[0] if error.errors else {}
    message = (first.get("description") or "it does not parse").partition(" for <class")[0]
    message = "something is missing" if message.startswith("Required keyword") else message[0].lower() + message[1:]
    before = " ".join((first.get("start_context") or "").removeprefix(_WHERE).split())
    return f"{message} after '{before[-_SHOWN_BEFORE:]}'" if before else message


def _check_tokens(tokens: Iterable[Token]) -> None:
    """Raise ArgumentError for comments, which Spark and sqlglot end differently, and for unsafe names."""
    for token in tokens:
        if token.comments:
            raise ArgumentError("comments are not allowed in SQL; YAML has its own", "invalid-sql")
        if token.token_type not in _TEXTS and _METADATA.fullmatch(token.text):
            message = f"the column {token.text} is not allowed: it reveals paths of the server's files"
            raise ArgumentError(message, "forbidden-column")
        if token.token_type not in _QUOTED and not (token.text.isascii() and token.text.isprintable()):
            raise ArgumentError(f"'{token.text}' must be quoted: it is not ASCII", "invalid-sql")


def _check_once_known(text: str) -> str:
    """Check an expression, unless it has open parameters."""
    return text if has_reference(text) else check_expression(text)


Expression = Annotated[str, AfterValidator(_check_once_known)]
