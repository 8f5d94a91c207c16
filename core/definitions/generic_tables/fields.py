"""SQL expressions for fields inside documents, with equal results on both databases.

Numbers sort before text, text before booleans, those before lists and objects; null and missing values sort last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Boolean, ColumnElement, Integer, Numeric, Text, and_, case, cast, func, literal, or_
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Session

from core.definitions.generic_tables.query import Field, parse_number
from core.tables import GenericTableRow

WORDS = {"true": True, "false": False}
NULL = "null"
RANKS = {"number": 0, "string": 1, "boolean": 2}
OTHERS = 3
LARGEST_INTEGER = 2**63 - 1


class DocumentField(Protocol):
    """A field of the documents in the SQL of one database."""

    def match(self, values: Sequence[str]) -> ColumnElement[bool]: ...

    def order(self, descending: bool) -> Sequence[ColumnElement[Any]]: ...


def make_field(session: Session, field: Field) -> DocumentField:
    """Return the field in the SQL of the session's database."""
    return PostgresField(field) if session.get_bind().dialect.name == "postgresql" else SqliteField(field)


class SqliteField:
    def __init__(self, field: Field) -> None:
        path = "$" + "".join(f'."{part}"' for part in field)
        self._type = func.json_type(GenericTableRow.document, path)
        self._value = func.json_extract(GenericTableRow.document, path)

    def match(self, values: Sequence[str]) -> ColumnElement[bool]:
        conditions = [and_(self._type == "text", self._value.in_(values))]
        numbers = [_convert_for_sqlite(parsed) for value in values if (parsed := parse_number(value)) is not None]
        if numbers:
            conditions.append(and_(self._is_number(), self._value.in_(numbers)))
        conditions.append(self._type.in_([value for value in values if value in (*WORDS, NULL)]))
        if NULL in values:
            conditions.append(self._type.is_(None))
        return or_(*conditions)

    def order(self, descending: bool) -> Sequence[ColumnElement[Any]]:
        boolean, text = self._type.in_(list(WORDS)), self._type == "text"
        rank = case((self._is_number(), 0), (text, 1), (boolean, 2), else_=OTHERS)
        missing = or_(self._type.is_(None), self._type == NULL)
        numeric = case((or_(self._is_number(), boolean), self._value))
        return _put_missing_last(missing, (rank, numeric, case((text, self._value))), descending)

    def _is_number(self) -> ColumnElement[bool]:
        return self._type.in_(["integer", "real"])


class PostgresField:
    def __init__(self, field: Field) -> None:
        value: ColumnElement[Any] = cast(GenericTableRow.document, JSONB)
        for part in field:
            value = value.op("->", return_type=JSONB)(literal(part, Text))
        self._value = value
        self._type = func.jsonb_typeof(value)

    def match(self, values: Sequence[str]) -> ColumnElement[bool]:
        readings: list[Any] = [*values]
        readings += [parsed for value in values if (parsed := parse_number(value)) is not None]
        readings += [WORDS[value] for value in values if value in WORDS]
        texts = [json.dumps(reading, ensure_ascii=False) for reading in readings]
        matching = self._value.in_([cast(literal(text, Text), JSONB) for text in texts])
        return or_(matching, self._is_missing()) if NULL in values else matching

    def order(self, descending: bool) -> Sequence[ColumnElement[Any]]:
        rank = case(*((self._type == name, at) for name, at in RANKS.items()), else_=OTHERS)
        truth = cast(cast(self._value, Boolean), Integer)
        numeric = case((self._type == "number", cast(self._value, Numeric)), (self._type == "boolean", truth))
        whole = cast(literal("{}", Text), ARRAY(Text))
        text = case((self._type == "string", self._value.op("#>>", return_type=Text)(whole).collate("C")))
        return _put_missing_last(self._is_missing(), (rank, numeric, text), descending)

    def _is_missing(self) -> ColumnElement[bool]:
        return or_(self._type.is_(None), self._type == NULL)


def _put_missing_last(
    missing: ColumnElement[bool], keys: Sequence[ColumnElement[Any]], descending: bool
) -> Sequence[ColumnElement[Any]]:
    return [case((missing, 1), else_=0), *(key.desc() if descending else key.asc() for key in keys)]


def _convert_for_sqlite(value: float | int) -> float | int:
    """Turn integers beyond 64 bits into floats, as SQLite does."""
    return float(value) if isinstance(value, int) and abs(value) > LARGEST_INTEGER else value
