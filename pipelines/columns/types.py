"""Spark SQL types as Arrow types, without Spark: the types of planned columns as both runners store them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa

from pipelines.errors import RunError
from pipelines.language.columns import Columns, quote_fields

_SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal": pa.decimal128(10, 0),
    "void": pa.null(),
}
_NAMES: Mapping[pa.DataType, str] = {type_: name for name, type_ in reversed(_SIMPLE.items())}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[<>,:()]|[^\s<>,:()`]+)")


class UnknownType(RunError):
    """A column has a type that only Spark knows."""

    def __init__(self, text: str) -> None:
        super().__init__(f"a column of the type '{text}' cannot pass through stages that work row by row; cast it")


def parse_type(text: str) -> pa.DataType:
    """Return the Arrow type that Spark gives to a column of this Spark SQL type; raise UnknownType."""
    tokens = _Tokens(quote_fields(text))
    parsed = _parse(tokens)
    if tokens.peek() is not None:
        raise UnknownType(text)
    return parsed


def format_type(type_: pa.DataType) -> str:
    """Return an Arrow type as Spark SQL writes it."""
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"array<{format_type(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{format_type(type_.key_type)},{format_type(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(f'{field.name}:{format_type(field.type)}' for field in type_)}>"
    return _NAMES.get(type_, str(type_))


def get_columns(schema: pa.Schema) -> Columns:
    """Return the columns of an Arrow schema."""
    return Columns(tuple((field.name, format_type(field.type)) for field in schema))


class _Tokens:
    """The tokens of a type, with the next one in sight."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: Iterator[str] = (match[1] for match in _TOKEN.finditer(text))
        self._next = next(self._found, None)

    def peek(self) -> str | None:
        return self._next

    def take(self, *expected: str) -> str:
        token = self._next
        if token is None or (expected and token not in expected):
            raise UnknownType(self._text)
        self._next = next(self._found, None)
        return token


def _parse(tokens: _Tokens) -> pa.DataType:
    name = tokens.take().lower()
    if name == "array":
        tokens.take("<")
        item = _parse(tokens)
        tokens.take(">")
        return pa.list_(pa.field("element", item))
    if name == "map":
        tokens.take("<")
        key = _parse(tokens)
        tokens.take(",")
        value = _parse(tokens)
        tokens.take(">")
        return pa.map_(key, value)
    if name == "struct":
        return pa.struct(list(_parse_fields(tokens)))
    if name == "decimal" and tokens.peek() == "(":
        tokens.take("(")
        precision, _, scale = int(tokens.take()), tokens.take(","), int(tokens.take())
        tokens.take(")")
        return pa.decimal128(precision, scale)
    if name in ("char", "varchar"):
        tokens.take("(")
        tokens.take()
        tokens.take(")")
        return pa.string()
    if name == "interval" and tokens.peek() in ("day", "hour", "minute", "second"):
        while tokens.peek() in ("day", "hour", "minute", "second", "to"):
            tokens.take()
        return pa.duration("us")
    if name not in _SIMPLE:
        raise UnknownType(name)
    return _SIMPLE[name]


def _parse_fields(tokens: _Tokens) -> Iterator[pa.Field]:
    tokens.take("<")
    while tokens.peek() != ">":
        name = tokens.take()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if tokens.peek() == ":":
            tokens.take(":")
        yield pa.field(name, _parse(tokens))
        if tokens.peek() != ">":
            tokens.take(",")
    tokens.take(">")
