"""SQL that a pipeline carries: read when the pipeline is read, and held to what only computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator
from sqlglot import Dialect, exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from pipelines.language.columns import ENGINE_COLUMNS, name_fault
from pipelines.language.parameters import has_reference

LONGEST = 20_000
# what a pipeline's SQL must not call; the driver's session knows none of these either
REFUSED = frozenset(
    # call any Java method
    {"reflect", "try_reflect", "java_method"}
    # read what an XML document refers to, at any address and of the server's files
    | {"xpath", "xpath_boolean", "xpath_short", "xpath_int", "xpath_long", "xpath_float", "xpath_double"}
    | {"xpath_number", "xpath_string"}
    # read files: of a schema, of a description
    | {"from_xml", "schema_of_xml", "from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"}
    # tell of the server: its files, its user, its programs
    | {"input_file_name", "input_file_block_start", "input_file_block_length"}
    | {"current_user", "user", "session_user", "version", "python_worker_logs"}
    # names a function or a column by a text, which is not checked
    | {"identifier"}
)
_END = "; \t\r\n"  # of a statement; Spark runs what stands in parentheses
# the hidden column of rows from files, with where these are; Spark calls it so when one of the file's own has its name
_METADATA = re.compile("_+metadata", re.IGNORECASE)
# what stands as a column does and is none: functions, ORDER BY ALL, units of time
_NO_COLUMNS = frozenset(
    {"current_time", "grouping__id", "all", "year", "quarter", "month", "week"}
    | {"day", "dayofyear", "hour", "minute", "second", "millisecond", "microsecond"}
)
_WHERE = "SELECT 1 FROM rows WHERE ("  # an expression is parsed in a query, which is not run
_SHOWN_BEFORE = 40  # characters of the SQL before a fault
_REMEMBERED = 64  # a pipeline is read twice when it is written
_SPARK = Dialect.get_or_raise("spark")
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_QUOTED = (*_TEXTS, TokenType.IDENTIFIER)


def check_expression(text: str) -> str:
    """Returns the text of an SQL expression without subqueries; raises ValueError for anything else."""
    _read_expression(text)
    return text.rstrip(_END)


def check_query(text: str) -> str:
    """Returns the text of one SELECT over the view `rows`; raises ValueError for anything else."""
    _read_query(text)
    return text.rstrip(_END)


def find_expression_columns(text: str) -> tuple[str, ...]:
    """The columns that an expression refers to; of `a.b` that is a, which may hold a b."""
    return () if has_reference(text) else _read_expression(text)


def find_query_columns(text: str) -> tuple[str, ...]:
    """The columns that only the view `rows` can give a query, where it is simple enough to be sure; else nothing.

    Not sure are names from inside (subqueries, joins, generators' and functions' own) and any that the query gives.
    """
    return () if has_reference(text) else _read_query(text)


@lru_cache(_REMEMBERED)
def _read_expression(text: str) -> tuple[str, ...]:
    tree = _parsed(f"{_WHERE}{text.rstrip(_END)}\n)")
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Query))) > 1:
        raise ValueError("it must be one SQL expression over the row's columns")
    own = {each.name.casefold() for function in tree.find_all(exp.Lambda) for each in function.expressions}
    return tuple(name for name in _names(tree.find_all(exp.Column, bfs=False)) if name.casefold() not in own)


@lru_cache(_REMEMBERED)
def _read_query(text: str) -> tuple[str, ...]:
    tree = _parsed(text.rstrip(_END))
    if not isinstance(tree, exp.Query):
        raise ValueError("it must be one SELECT over the view 'rows'")
    for name in filter(None, tree.named_selects):
        if fault := name_fault(name):
            raise ValueError(fault)
    views = {"rows", *(each.alias_or_name.casefold() for each in tree.find_all(exp.CTE))}
    for table in tree.find_all(exp.Table):
        if table.name.casefold() not in views or table.db:
            raise ValueError(f"there is no table '{table.sql()}'; the rows are called 'rows'")
    if not isinstance(tree, exp.Select) or not _is_plain(tree):
        return ()
    alone = [each for each in tree.find_all(exp.Column, bfs=False) if not each.table]
    own = {id(each.this) for each in alone}
    given = {each.name.casefold() for each in tree.find_all(exp.Identifier) if id(each) not in own}
    return tuple(name for name in _names(alone) if name.casefold() not in given)


def _is_plain(select: exp.Select) -> bool:
    """Whether it selects from the rows alone, and says what each of its columns is called."""
    sources = (exp.Table, exp.Query, exp.UDTF, exp.Join, exp.Lateral, exp.Pivot)
    if [type(each) for each in select.find_all(*sources)] != [exp.Select, exp.Table]:
        return False
    named = (exp.Star, exp.Column, exp.Alias, exp.Aliases)
    return all(isinstance(each, named) and not _is_fields(each) for each in select.expressions)


def _is_fields(selected: exp.Expr) -> bool:
    """Whether it is `a.*`: as many columns as the struct has fields."""
    return isinstance(selected, exp.Column) and selected.is_star


def _names(columns: Iterable[exp.Column]) -> tuple[str, ...]:
    names = dict.fromkeys(each.parts[0].name for each in columns)
    return tuple(name for name in names if name.casefold() not in _NO_COLUMNS)


def find_engine_columns(query: str) -> tuple[str, ...]:
    """The engine's columns that a query's result names, so that they are output like any other."""
    tree = None if has_reference(query) else _parsed(query)
    names = tree.named_selects if isinstance(tree, exp.Query) else []
    return tuple(name for name in names if name in ENGINE_COLUMNS and name != "_ordinal")


def is_select_all(query: str) -> bool:
    """Whether a query's result has all columns of what it selects from, as far as that is known."""
    tree = None if has_reference(query) else _parsed(query)
    return not isinstance(tree, exp.Query) or tree.is_star


def has_repeated_reads(query: str) -> bool:
    """Whether Spark asks for the rows more than once: they are named again, or sorted, for which it takes a sample."""
    tree = _parsed(query)
    sorts = any(isinstance(order.parent, exp.Query) for order in tree.find_all(exp.Order))
    return sorts or len(list(tree.find_all(exp.Table))) > 1


def _parsed(text: str) -> exp.Expr:
    if len(text) > LONGEST:
        raise ValueError(f"SQL has at most {LONGEST:,} characters")
    try:
        tokens = _SPARK.tokenize(text)
        _check_tokens(tokens)
        trees = _SPARK.parser().parse(tokens, text)
    except ParseError as error:
        raise ValueError(f"not SQL: {_fault(error)}") from None
    except TokenError:
        raise ValueError("not SQL: a quote or comment does not end") from None
    except IndexError:
        raise ValueError("not SQL: map takes pairs of a key and a value") from None
    except RecursionError:
        raise ValueError("not SQL: it is nested too deep") from None
    if len(trees) != 1 or trees[0] is None:
        raise ValueError("it must be one statement")
    tree = trees[0]
    if tree.find(exp.Command, exp.QueryTransform, exp.Into):
        raise ValueError("it must only read")
    for function in tree.find_all(exp.Func):
        name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
        if name.casefold() in REFUSED:
            raise ValueError(f"the function {name} is not allowed")
    return tree


def _fault(error: ParseError) -> str:
    """What sqlglot says, without the classes of its own that it names, and the words before it."""
    first = error.errors[0] if error.errors else {}
    said = (first.get("description") or "it does not parse").partition(" for <class")[0]
    said = "something is missing" if said.startswith("Required keyword") else said[0].lower() + said[1:]
    before = " ".join((first.get("start_context") or "").removeprefix(_WHERE).split())
    return f"{said} after '{before[-_SHOWN_BEFORE:]}'" if before else said


def _check_tokens(tokens: Iterable[Token]) -> None:
    """Spark ends a comment elsewhere than sqlglot: what is a comment to one would be code to the other."""
    for token in tokens:
        if token.comments:
            raise ValueError("comments are not allowed in SQL; YAML has its own")
        if token.token_type not in _TEXTS and _METADATA.fullmatch(token.text):
            raise ValueError(f"the column {token.text} is not allowed: it tells where the server has its files")
        if token.token_type not in _QUOTED and not (token.text.isascii() and token.text.isprintable()):
            raise ValueError(f"'{token.text}' must be quoted: it is not ASCII")


def _once_known(check: Callable[[str], str]) -> AfterValidator:
    """What holds a parameter is checked when that has its value."""
    return AfterValidator(lambda text: text if has_reference(text) else check(text))


Expression = Annotated[str, _once_known(check_expression)]
Query = Annotated[str, _once_known(check_query)]
