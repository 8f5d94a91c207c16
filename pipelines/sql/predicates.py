"""SQL conditions that one process evaluates as Spark does: comparisons of columns with literals."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from sqlglot import exp

from pipelines.language.columns import JSON, UNKNOWN, Columns
from pipelines.sql.expressions import parse_condition

# a boolean Arrow array with nulls, by SQL's three-valued logic
Condition = Callable[[Any], Any]
_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_TYPES = {"string": str, "bigint": int, "int": int, "boolean": bool}
_WHOLE_NUMBER = re.compile(r"\d{1,18}")
_NUMBER = re.compile(r"\d{1,15}|(?=[\d.]{2,16}$)(?:\d+\.\d*|\.\d+)")  # of at most 15 digits, which a double holds


class _OnlySpark(Exception):
    """The expression has a part that only Spark evaluates."""


def build_condition(text: str, columns: Columns) -> Condition | None:
    """Return the condition of an SQL expression over these columns; None where only Spark can evaluate it.

    It may have AND, OR, NOT, IS NULL, IN and comparisons of a string, bigint, int, double or boolean column with a
    literal of the same type. NaN is larger than all numbers. Texts are compared by their UTF-8 bytes. A column that the
    plan does not know may be one of these.
    """
    if "\\" in text:  # Spark and sqlglot read escapes differently
        return None
    try:
        return _Builder(columns).build(parse_condition(text))
    except _OnlySpark:
        return None


class _Builder:
    def __init__(self, columns: Columns) -> None:
        self._open = columns.open
        self._types: dict[str, list[tuple[str, str]]] = {}
        for name, type_ in columns.types:
            self._types.setdefault(name.casefold(), []).append((name, type_))

    def build(self, node: exp.Expr) -> Condition:
        """Return the condition of a node; raise _OnlySpark."""
        match node:
            case exp.Paren():
                return self.build(node.this)
            case exp.And() | exp.Or():
                left, right = self.build(node.left), self.build(node.right)
                return _combine("and_kleene" if isinstance(node, exp.And) else "or_kleene", left, right)
            case exp.Not():
                inner = self.build(node.this)
                return lambda rows: _compute("invert", inner(rows))
            case exp.Is() if isinstance(node.expression, exp.Null):
                name, _ = self._find_column(node.this)
                return lambda rows: _compute("is_null", rows.column(name))
            case exp.In() if node.expressions and not node.args.get("query"):
                equal = [self._compare("equal", node.this, each) for each in node.expressions]
                return reduce(lambda one, other: _combine("or_kleene", one, other), equal)
            case _ if type(node) in _COMPARISONS:
                function = _COMPARISONS[type(node)]
                if isinstance(node.this, exp.Column):
                    return self._compare(function, node.this, node.expression)
                return self._compare(_MIRRORED.get(function, function), node.expression, node.this)
            case _:
                raise _OnlySpark

    def _compare(self, function: str, column: exp.Expr, literal: exp.Expr) -> Condition:
        name, type_ = self._find_column(column)
        if type_ == "double":
            return _compare_doubles(function, name, _read_number(literal))
        if type_ in (JSON, UNKNOWN):  # the run decides when it knows the type
            return lambda rows: rows.column(name).is_null()
        value = _read_literal(literal)
        if type(value) is not _TYPES.get(type_):
            raise _OnlySpark
        if isinstance(value, bool):
            return lambda rows: _compute(function, rows.column(name).cast("int8"), int(value))
        return lambda rows: _compute(function, rows.column(name), value)

    def _find_column(self, node: exp.Expr) -> tuple[str, str]:
        if not isinstance(node, exp.Column) or len(node.parts) != 1:
            raise _OnlySpark
        found = self._types.get(node.name.casefold(), [(node.name, UNKNOWN)] if self._open else [])
        if len(found) != 1:
            raise _OnlySpark
        return found[0]


def _read_literal(node: exp.Expr) -> str | int | bool:
    """Return the value of a text, a whole number or a truth value; raise _OnlySpark."""
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return operator.neg(int(_read_literal(node.this)))
    if not isinstance(node, exp.Literal):
        raise _OnlySpark
    if node.is_string:
        return str(node.this)
    number = str(node.this)
    if not _WHOLE_NUMBER.fullmatch(number):
        raise _OnlySpark
    return int(number)


def _read_number(node: exp.Expr) -> float:
    """Return the value of a number without an exponent; raise _OnlySpark."""
    if isinstance(node, exp.Neg):
        return -_read_number(node.this)
    if not isinstance(node, exp.Literal) or node.is_string or not _NUMBER.fullmatch(str(node.this)):
        raise _OnlySpark
    return float(str(node.this))


def _compare_doubles(function: str, name: str, value: float) -> Condition:
    def compare(rows: Any) -> Any:
        compared = _compute(function, rows.column(name), value)
        return _compute("or", compared, _compute("is_nan", rows.column(name))) if "greater" in function else compared

    return compare


def _combine(function: str, left: Condition, right: Condition) -> Condition:
    return lambda rows: _compute(function, left(rows), right(rows))


def _compute(function: str, *arguments: Any) -> Any:
    import pyarrow.compute as pc

    return pc.call_function(function, [*arguments])
