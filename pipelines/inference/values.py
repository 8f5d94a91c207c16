"""Figures of a field's values: fill, type, length and distinct ratio."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

from pipelines.inference.records import ValueType

VALUE_TYPES: tuple[ValueType, ...] = ("text", "number", "url")  # the first where equally many are
_NUMBER = re.compile(r"\D{0,4}\d[\d., ]*\D{0,4}")


class ValueFigures(TypedDict):
    """Figures of some values, as ProvenField has them."""

    fill: float
    type: ValueType
    length: float
    distinct: float


def describe_values(values: Sequence[str | None]) -> ValueFigures:
    """Return the figures of values of some pages."""
    filled = [value for value in values if value]
    count = len(filled) or 1
    types = [get_value_type(value) for value in filled]
    return {
        "fill": len(filled) / (len(values) or 1),
        "type": max(VALUE_TYPES, key=types.count),
        "length": sum(map(len, filled)) / count,
        "distinct": len(set(filled)) / count,
    }


def get_value_type(value: str) -> ValueType:
    """Return the shape of a value."""
    if value.startswith(("http://", "https://")):
        return "url"
    return "number" if _NUMBER.fullmatch(value) else "text"
