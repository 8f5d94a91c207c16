"""CAST, TRY_CAST and AT TIME ZONE as Trino has them, in DuckDB's terms."""

from __future__ import annotations

import re

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.floats import FLOATS, TYPE
from pipelines.sql.nested import get_type
from pipelines.sql.statement import LITERAL_DIGITS
from pipelines.sql.syntax import call, refuse
from pipelines.sql.types import DIGITS, MAX_DIGITS, NUMBERS, WHOLE, Type, convert_type

INTEGER_TYPES = {"TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "integer", "BIGINT": "bigint"}
CHECKED_CASTS = {"DOUBLE": "double", "BOOLEAN": "boolean", "DATE": "date", "DECIMAL": "decimal"}
ROUNDED_CASTS = {"TIMESTAMP": "timestamp", "TIMESTAMPTZ": "moment"}  # to milliseconds
TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIME", "TIMETZ")
NESTED = ("array", "map", "row")
ZONE = re.compile(r"\d\s*([+-]\d{1,2}(:\d{2})?|[A-Za-z][\w/+-]*)\s*$")  # of a time
MIDNIGHT = re.compile(r"(^|[ T])\s*24:")
SECONDS = re.compile(r"\.\d{7}")  # more digits than DuckDB has
MOMENTS = (  # where only the moment of a time AT TIME ZONE matters
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Between, exp.In, exp.Is, exp.Ordered),
)
ZONE_FIELDS = (exp.Extract, exp.Year, exp.Month, exp.Day, exp.DayOfWeekIso, exp.DayOfYear, exp.Hour, exp.Minute)


def convert(node: exp.Cast) -> exp.Expr | None:
    kind, literal = node.to.this, node.this if isinstance(node.this, exp.Literal) else None
    name, safe = str(kind.name) if isinstance(kind, exp.DType) else "", isinstance(node, exp.TryCast)
    number = literal is not None and not literal.is_string
    if name in TIMES:
        return _convert_to_time(node, name, literal, safe)
    if name in INTEGER_TYPES and not (literal is not None and number and literal.name.isdecimal()):
        return call(("trino_try_cast_" if safe else "trino_cast_") + INTEGER_TYPES[name], node.this)
    if name == "DECIMAL" and not node.to.expressions:
        node.set("to", exp.DataType.build("DECIMAL(38, 0)"))
    if name == "FLOAT":
        return call(f"trino_{'try_' if safe else ''}cast_real", node.this)
    source = get_type(node.this)
    if name == "DECIMAL" and source is not None and source.name in FLOATS:  # rounded by their shortest digits
        node.set("this", exp.cast(exp.cast(node.this.copy(), source.name, dialect="trino"), "varchar"))
        return None
    if name in CHECKED_CASTS and not number:
        # no texts that Trino does not take, like 1_000, yes, nan and 2024/02/29
        node.set("this", call(f"trino_{'filter' if safe else 'check'}_{CHECKED_CASTS[name]}", node.this))
        return None
    if name == "VARCHAR":
        return _convert_to_text(node, literal)
    if name == "CHAR":
        raise refuse("char")
    if name == "JSON" and not safe:
        return _convert_to_json(node)
    target = convert_type(node.to)
    return _convert_nested(node, target, safe) if target is not None and target.name in NESTED else None


def _convert_to_time(node: exp.Cast, name: str, literal: exp.Literal | None, safe: bool) -> exp.Expr | None:
    is_literal = node.meta_get(LITERAL_DIGITS) is not None
    digits = int(node.to.expressions[0].name) if node.to.expressions and not is_literal else None
    if (digits or 0) > MAX_DIGITS:
        raise refuse(f"more than {MAX_DIGITS} digits of a second")
    if literal is not None:
        _check_time(node, literal.name)
    node.set("to", exp.DataType(this=node.to.this))
    is_timestamp = name in ROUNDED_CASTS
    if is_literal:
        return None
    checked = call(f"trino_{'filter' if safe else 'check'}_clock", node.this)
    if not is_timestamp:
        if digits is not None:
            raise refuse("times of day with a number of digits")
        node.set("this", checked)
        return None
    if digits in (None, DIGITS):
        return call(f"trino_{'try_' if safe else ''}cast_{ROUNDED_CASTS[name]}", checked)
    if name != "TIMESTAMP":
        raise refuse("timestamps with time zone with a number of digits")
    node.set("this", checked)
    return call("trino_round_timestamp", node, exp.Literal.number(10 ** (MAX_DIGITS - digits)))


def _check_time(node: exp.Cast, text: str) -> None:
    zone = ZONE.search(text)
    if zone is not None and zone[1] not in ("UTC", "Z"):  # DuckDB keeps the moment only, not its zone
        raise refuse("times with a zone; write the time in UTC, as in TIMESTAMP '2026-03-01 08:00:00 UTC'")
    if SECONDS.search(text):
        raise refuse(f"more than {MAX_DIGITS} digits of a second")
    if node.meta_get(LITERAL_DIGITS) is not None and MIDNIGHT.search(text):
        sentence = f"'{text[:60]}' is not a valid {node.to.sql('trino')} literal."
        raise SqlError(sentence, code="INVALID_LITERAL")


def _convert_to_text(node: exp.Cast, literal: exp.Literal | None) -> exp.Expr | None:
    type, length = get_type(node.this), node.to.expressions
    if literal is not None and (literal.is_string or literal.name.isdecimal()):
        return call("left", literal, exp.Literal.number(length[0].name)) if length else None
    if isinstance(node.this, exp.AtTimeZone):
        raise refuse("CAST of a timestamp with time zone AS varchar")
    if type is not None and type.name == "timestamp":
        if type.digits is None:
            raise refuse("CAST of this timestamp AS varchar, whose digits are not known here; use date_format")
        value = call("trino_timestamp_text", node.this, exp.Literal.number(type.digits))
    else:
        value = call("trino_cast_varchar", node.this)
    return call("left", value, exp.Literal.number(length[0].name)) if length else value


def _convert_to_json(node: exp.Cast) -> exp.Expr:
    type = get_type(node.this)
    if type is not None and _contains(type, "timestamp"):
        raise refuse("CAST of timestamps AS json")
    return call("to_json", node.this)


def _contains(type: Type, name: str) -> bool:
    return type.name == name or any(each is not None and _contains(each, name) for each in type.items)


def _convert_nested(node: exp.Cast, target: Type, safe: bool) -> exp.Expr | None:
    """Convert the elements of an array one by one; DuckDB's own casts serve where all values are taken alike."""
    source = get_type(node.this)
    if source is None or source.name not in NESTED or _is_plain(source, target, safe):
        return None
    if safe or target.name != "array" or not node.to.expressions:
        raise refuse(f"{'TRY_CAST' if safe else 'CAST'} of {source} AS {target}")
    element = exp.Cast(this=exp.to_identifier("element"), to=node.to.expressions[0].copy())
    element.this.meta[TYPE] = source.items[0]
    converted = convert(element)
    body = element if converted is None else converted
    lambda_ = exp.Lambda(this=body, expressions=[exp.to_identifier("element")])
    made = exp.Anonymous(this="list_transform", expressions=[node.this.copy(), lambda_])
    return call("cast_to_type", made, exp.Cast(this=exp.Null(), to=node.to.copy()))


def _is_plain(source: Type | None, target: Type | None, safe: bool) -> bool:
    """Return whether DuckDB casts all values as Trino does; with `safe`, no value may fail."""
    if source is None or target is None or source.name == "unknown":
        return True
    if source.name in NESTED:
        same = source.name == target.name and len(source.items) == len(target.items)
        return same and all(_is_plain(*pair, safe) for pair in zip(source.items, target.items, strict=True))
    if source.name in NUMBERS and target.name in NUMBERS:
        widens = NUMBERS.index(source.name) <= NUMBERS.index(target.name)
        return widens or (source.name in WHOLE and not safe)
    return source.name == target.name


def move_to_zone(node: exp.AtTimeZone) -> exp.Expr | None:
    """The same moment; a field, date or wall clock of it is taken in the zone, which an answer does not have."""
    parent = node.parent
    if isinstance(parent, ZONE_FIELDS) or (isinstance(parent, exp.Cast) and parent.to.is_type("date", "timestamp")):
        return None
    if not isinstance(parent, MOMENTS):
        raise refuse("AT TIME ZONE in this place, whose zone would be lost; cast it to timestamp")
    return exp.Cast(this=node.this.copy(), to=exp.DataType(this=exp.DType.TIMESTAMPTZ))
