"""Trino's types, and the type that two values have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self

from sqlglot import exp
from sqlglot.errors import SqlglotError

WHOLE = ("tinyint", "smallint", "integer", "bigint")
NUMBERS = (*WHOLE, "decimal", "real", "double")  # coerced to those after it
TIMES = ("date", "timestamp", "timestamp with time zone")
CHAINS = (NUMBERS, TIMES)
DIGITS, MAX_DIGITS = 3, 6  # of a second: Trino's default, and the most that DuckDB has
FROM_SQLGLOT = {
    exp.DType.INT: "integer",
    exp.DType.FLOAT: "real",
    exp.DType.TEXT: "varchar",
    exp.DType.TIMESTAMPTZ: "timestamp with time zone",
    exp.DType.TIMETZ: "time with time zone",
    exp.DType.STRUCT: "row",
    exp.DType.NULL: "unknown",
}


@dataclass(frozen=True, slots=True)
class Type:
    """A type without its precision. The type of an item may be unknown; `fields` names those of a row.

    `digits` are those of a timestamp behind the point, null where they are not known.
    """

    name: str
    items: tuple[Type | None, ...] = ()
    fields: tuple[str, ...] = ()
    digits: int | None = field(default=None, compare=False)

    def __deepcopy__(self, memo: object) -> Self:
        """Return the type itself: trees that have types are copied often."""
        return self

    def __str__(self) -> str:
        items = [str(each) if each else "?" for each in self.items]
        if self.fields:
            items = [f"{field} {item}".strip() for field, item in zip(self.fields, items, strict=True)]
        return f"{self.name}({', '.join(items)})" if items else self.name


UNKNOWN = Type("unknown")  # of NULL: fits every other type
BOOLEAN, VARCHAR, BIGINT, INTEGER, DOUBLE = map(Type, ("boolean", "varchar", "bigint", "integer", "double"))
DATE, TIMESTAMP, INTERVAL = map(Type, ("date", "timestamp", "interval day to second"))
MOMENT, MONTHS = Type("timestamp with time zone"), Type("interval year to month")


@cache
def parse_type(text: str) -> Type | None:
    """Return the type that Trino calls so; null for an unknown name."""
    try:
        return convert_type(exp.DataType.build(text, dialect="trino"))
    except (SqlglotError, ValueError):
        return None


def find_column_type(name: str) -> Type | None:
    """Return the type of a table's column; its timestamps have six digits behind the point."""
    type = parse_type(name)
    return type if type is None or type.digits is None else replace(type, digits=MAX_DIGITS)


def convert_type(node: exp.Expr) -> Type | None:
    """Return the type of a node of the tree, for example of CAST."""
    if not isinstance(node, exp.DataType):
        return None
    kind = node.this
    if isinstance(kind, exp.Interval):
        return name_interval(str(kind.unit or ""))
    name = FROM_SQLGLOT.get(kind, str(getattr(kind, "name", kind)).lower())
    inner = [each for each in node.expressions if not isinstance(each, exp.DataTypeParam)]
    if name == "row":
        fields = tuple(each.name if isinstance(each, exp.ColumnDef) else "" for each in inner)
        items = (each.args.get("kind") if isinstance(each, exp.ColumnDef) else each for each in inner)
        return Type(name, tuple(convert_type(each) if each else None for each in items), fields)
    if name.startswith("timestamp"):
        return Type(name, digits=int(node.expressions[0].name) if node.expressions else DIGITS)
    return Type(name, tuple(map(convert_type, inner)))


def add_interval(type: Type) -> Type:
    """Return the type of a time plus an interval, which has three digits."""
    return type if type.digits is None else replace(type, digits=max(type.digits, DIGITS))


def has_months(type: Type) -> bool:
    """Return whether a type is an interval of years and months, or contains one."""
    return type == MONTHS or any(each is not None and has_months(each) for each in type.items)


def name_interval(unit: str) -> Type:
    return MONTHS if unit.upper().startswith(("YEAR", "MONTH")) else INTERVAL


def find_common(types: Iterable[Type | None]) -> tuple[bool, Type | None]:
    """Return whether the types fit together, and the one that all are coerced to if it is known."""
    found: Type | None = UNKNOWN
    certain = True
    for each in types:
        if each is None or found is None:
            certain = certain and each is not None
            found = found or each
            continue
        fits, found = _find_common_of_two(found, each)
        if not fits:
            return False, None
    return True, found if certain else None


def _find_common_of_two(one: Type, other: Type) -> tuple[bool, Type | None]:
    if one == other and one.digits != other.digits:
        return True, replace(one, digits=_find_more(one.digits, other.digits))
    if one == other or other == UNKNOWN:
        return True, one
    if one == UNKNOWN:
        return True, other
    for chain in CHAINS:
        if one.name in chain and other.name in chain:
            return True, max(one, other, key=lambda each: chain.index(each.name))
    if one.name != other.name or len(one.items) != len(other.items):
        return False, None
    pairs = [find_common(pair) for pair in zip(one.items, other.items, strict=True)]
    fields = tuple(a or b for a, b in zip(one.fields, other.fields, strict=False))
    return all(fits for fits, _ in pairs), Type(one.name, tuple(common for _, common in pairs), fields)


def _find_more(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
