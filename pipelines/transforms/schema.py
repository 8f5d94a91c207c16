"""Schemas of row transforms: SQL types from annotations or rows, and conversion of values to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, cast

Types = tuple[tuple[str, str], ...]

_MAX_PRECISION = 38
_MAX_SCALE = 18  # digits after the point that a Decimal keeps where none are declared, as in PySpark
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_EXACT = Context(prec=2 * _MAX_PRECISION, rounding=ROUND_HALF_UP)
_NAMES = {
    "str": "string",
    "int": "bigint",
    "float": "double",
    "bool": "boolean",
    "bytes": "binary",
    "datetime": "timestamp",
    "date": "date",
    "Decimal": f"decimal({_MAX_PRECISION},{_MAX_SCALE})",
}
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "bigint"),
    (float, "double"),
    (Decimal, "decimal"),
    (str, "string"),
    (bytes, "binary"),
    (datetime, "timestamp"),
    (date, "date"),
)
_WORDS = {
    "string": "text",
    "bigint": "a whole number",
    "double": "a number",
    "decimal": "a Decimal",
    "boolean": "true or false",
    "binary": "bytes",
    "timestamp": "a datetime",
    "date": "a date",
}
_WRAPPERS = ("Optional", "Required", "NotRequired", "ReadOnly")
_LARGEST = 2**63 - 1


class TypeMismatch(ValueError):
    """A value does not have the type of its column."""


def parse_annotation(node: ast.expr) -> str | None:
    """Return the SQL type of an annotation; None if it fits no column."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        inside = parse_expression(node.value)
        return parse_annotation(inside) if inside else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [side for side in (node.left, node.right) if not is_none(side)]
        return parse_annotation(sides[0]) if len(sides) == 1 else None
    if not isinstance(node, ast.Subscript):
        return _NAMES.get(get_last_name(node))
    generic, inner = get_last_name(node.value), node.slice
    if generic in _WRAPPERS:
        return parse_annotation(inner)
    if generic == "Annotated" and isinstance(inner, ast.Tuple):
        return _parse_annotated(inner.elts[0], inner.elts[1:])
    if generic in ("list", "List", "Sequence"):
        element = parse_annotation(inner)
        return f"array<{element}>" if element else None
    if generic in ("dict", "Dict", "Mapping") and isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
        key, value = map(parse_annotation, inner.elts)
        return f"map<string,{value}>" if key == "string" and value else None
    return None


def _parse_annotated(node: ast.expr, added: list[ast.expr]) -> str | None:
    """Return the type of `Annotated[Decimal, "decimal(10,2)"]`; other annotations than that add nothing."""
    type_ = parse_annotation(node)
    texts = (each.value for each in added if isinstance(each, ast.Constant) and isinstance(each.value, str))
    for found in filter(None, map(_DECIMAL.fullmatch, texts)):
        precision, scale = int(found[1]), int(found[2])
        fits = type_ == _NAMES["Decimal"] and 0 < precision <= _MAX_PRECISION and scale <= min(precision, _MAX_SCALE)
        return f"decimal({precision},{scale})" if fits else None
    return type_


def parse_expression(text: str) -> ast.expr | None:
    """Parse a quoted expression; return None if it does not parse."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def get_last_name(node: ast.expr) -> str:
    """Return `datetime` for both `datetime` and `datetime.datetime`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def infer_schema(rows: Iterable[Mapping[str, Any]], mixes: bool = False) -> Types:
    """Return the columns of rows in order of appearance, text for columns of nulls.

    A column of values that share no type is text if it `mixes` them; otherwise raise TypeMismatch.
    """
    types: dict[str, str | None] = {}
    for row in rows:
        _add_types(types, row, mixes)
    return tuple((name, type_.replace("void", "string") if type_ else "string") for name, type_ in types.items())


def find_telling(rows: Iterable[Mapping[str, Any]], types: dict[str, str | None]) -> list[bool]:
    """Return for each row whether it adds to the mixed `types` of those before, so that the others show no more."""
    telling: list[bool] = []
    for row in rows:
        before = dict(types)
        _add_types(types, row, mixes=True)
        telling.append(types != before)
    return telling


def _add_types(types: dict[str, str | None], row: Mapping[str, Any], mixes: bool) -> None:
    for name, value in row.items():
        try:
            types[name] = _merge_types(types.get(name), _infer_type(value))
        except TypeMismatch as error:
            if not mixes:
                raise TypeMismatch(f"the column {_quote_name(name)} {error}") from None
            types[name] = "string"


def _infer_type(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Decimal):
        return f"decimal({_MAX_PRECISION},{_count_places(value)})" if value.is_finite() else None
    if isinstance(value, list):
        element: str | None = None
        for each in cast(list[Any], value):
            element = _merge_types(element, _infer_type(each))
        return f"array<{element or 'void'}>"
    if isinstance(value, dict):
        inner: str | None = None
        for each in cast(dict[str, Any], value).values():
            inner = _merge_types(inner, _infer_type(each))
        return f"map<string,{inner or 'void'}>"
    found = next((type_ for kind, type_ in _KINDS if isinstance(value, kind)), None)
    if found is None:
        raise TypeMismatch(f"holds a {type(value).__name__}, which fits in no column")
    return found


def _merge_types(one: str | None, other: str | None) -> str | None:
    """Return the type that holds values of both types."""
    if one is None or other is None or one == other:
        return one or other
    if _is_number(one) and _is_number(other):
        decimals = [type_ for type_ in (one, other) if type_.startswith("decimal(")]
        return "double" if "double" in (one, other) else max(decimals, key=_get_scale)
    for outer in ("array<", "map<string,"):
        if one.startswith(outer) and other.startswith(outer):
            inner = [None if each == "void" else each for each in (one[len(outer) : -1], other[len(outer) : -1])]
            return f"{outer}{_merge_types(*inner) or 'void'}>"
    raise TypeMismatch(f"has {_describe_type(one)} in one row and {_describe_type(other)} in another")


def _is_number(type_: str) -> bool:
    return type_ in ("bigint", "double") or type_.startswith("decimal(")


def _get_scale(type_: str) -> int:
    return int(type_[:-1].rpartition(",")[2])


def _round_places(value: Decimal) -> Decimal:
    """Return a finite number without digits that no decimal column keeps, like those of a third."""
    smallest = Decimal(1).scaleb(-_MAX_SCALE)
    exponent = cast(int, value.as_tuple().exponent)
    return value if exponent >= -_MAX_SCALE else value.quantize(smallest, context=_EXACT)


def _count_places(value: Decimal) -> int:
    """Return the number of digits after the point, without zeros beyond those that a column keeps."""
    if value.adjusted() >= _MAX_PRECISION:
        return 0  # it fits in no column; its conversion raises the error
    return max(0, -cast(int, _round_places(value).as_tuple().exponent))


def fold_names(row: Mapping[str, Any], spellings: dict[str, str]) -> Mapping[str, Any]:
    """Return the row with the first spellings of names that differ only in case, and note its new ones.

    A row with two of these names stays as it is.
    """
    folded = {spellings.setdefault(name.casefold(), name): value for name, value in row.items()}
    return folded if len(folded) == len(row) else row


def convert_row(row: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """Convert a row to the columns' types, null for missing values; raise TypeMismatch."""
    known = dict(types)
    for name in row:
        if name not in known:
            raise TypeMismatch(f"there is no column {_quote_name(name)} among its columns {', '.join(known) or 'none'}")
    values: dict[str, Any] = {}
    for name, type_ in types:
        try:
            values[name] = _convert_value(row.get(name), type_)
        except TypeMismatch as error:
            raise TypeMismatch(f"the column '{name}' {error}") from None
    return values


def mix_types(row: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """Return the row with the values of columns of text as texts."""
    return {
        name: value if value is None or isinstance(value, str) or types.get(name) != "string" else _write(value)
        for name, value in row.items()
    }


def _write(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def keep_matching_values(row: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """Return the values of a row that fit the columns."""
    values: dict[str, Any] = {}
    for name, type_ in types:
        with suppress(TypeMismatch):
            values[name] = _convert_value(row.get(name), type_)
    return values


def _convert_value(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_.startswith("array<") and isinstance(value, list):
        return [_convert_value(each, type_[6:-1]) for each in cast(list[Any], value)]
    if type_.startswith("map<string,") and isinstance(value, dict):
        return {
            _check_text(key): _convert_value(each, type_[11:-1]) for key, each in cast(dict[str, Any], value).items()
        }
    found = next((name for kind, name in _KINDS if isinstance(value, kind)), None)
    if type_.startswith("decimal(") and found in ("bigint", "decimal"):
        return _convert_decimal(Decimal(value), type_)
    if type_ == "double" and found in ("bigint", "double", "decimal"):
        try:
            return float(value)
        except OverflowError:
            raise TypeMismatch("is a number too large for float") from None
        except ValueError:
            raise TypeMismatch("is a signaling NaN, which is no number") from None
    if found != type_:
        raise TypeMismatch(f"is {_describe_type(found or _infer_type(value) or '')}, not {_describe_type(type_)}")
    if found == "bigint" and abs(value) > _LARGEST:
        raise TypeMismatch("is a number of more than 64 bits")
    if found == "timestamp" and value.tzinfo:
        _check_year(value)
    return _check_text(value) if found == "string" else value


def _convert_decimal(value: Decimal, type_: str) -> Decimal:
    """Return the number with the places of its column; it must have no more of them, or of digits before the point."""
    precision, scale = int(type_[8:].partition(",")[0]), _get_scale(type_)
    if not value.is_finite():
        raise TypeMismatch(f"is the Decimal {value}, which is no number")
    if value.adjusted() < precision - scale:
        rounded = _round_places(value)
        converted = rounded.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
        if converted != rounded:
            raise TypeMismatch(f"has more than {scale} digits after the point: round it, or declare more of them")
        if converted.is_zero() or converted.adjusted() < precision - scale:
            return converted
    raise TypeMismatch(f"is too large for {type_}")


def _check_year(value: datetime) -> None:
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise TypeMismatch("is a datetime that in UTC is not of the years 1 to 9999") from None


def _check_text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise TypeMismatch("holds half of a surrogate pair, which is no character") from None
    return value


def _quote_name(name: str) -> str:
    """Return the name in quotes, escaped if it is not printable."""
    return f"'{name}'" if name.isprintable() else ascii(name)


def _describe_type(type_: str) -> str:
    return _WORDS.get(type_.partition("(")[0]) or ("a list" if type_.startswith("array<") else "a map")
