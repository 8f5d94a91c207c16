"""The types of texts: what all texts of a column look like. Uploads of CSV and JSON and `load_json` share these rules.

A text has a type only if nothing is lost by it, so that article numbers, versions and postal codes stay texts.
docs/datasets.md states the rules.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute
from msgspec import Struct, field

pc: Any = pyarrow.compute  # its functions are made when it is imported
DOUBLE_DIGITS = 15  # which every double keeps
MAX_DIGITS = 38
TIMESTAMP, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
Kind = Literal["boolean", "number", "special", "date", "timestamp", "instant"]

_WHOLE = r"0|-?[1-9][0-9]{0,17}"
_INTEGER = "0|-?[1-9][0-9]*"
_POINT = r"-?(0|[1-9][0-9]*)\.[0-9]+|-0"
_EXPONENT = r"-?[0-9](\.[0-9]+)?[eE][+-][0-9]{1,3}|-?[0-9]\.[0-9]+[eE][0-9]{1,3}"  # as programs write it: not 12E3
_SPECIAL = "NaN|-?Infinity"
_PADDED = r"\.[0-9]+0$"  # a double has no zeros at its end; 2.0 is one
_DAY = r"(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"
_CLOCK = _DAY + r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6}0*)?)?"  # with no digit beyond microseconds
_PATTERNS: dict[Kind, str] = {
    "boolean": "(?i)true|false",
    "number": f"{_WHOLE}|{_POINT}|{_EXPONENT}|{_SPECIAL}",
    "special": _SPECIAL,
    "date": _DAY,
    "timestamp": _CLOCK,
    "instant": _CLOCK + "(Z|[+-][0-9]{2}(:?[0-9]{2})?)",
}
_TYPES: dict[Kind, pa.DataType] = {
    "boolean": pa.bool_(),
    "special": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "instant": INSTANT,
}
_KINDS: dict[pa.DataType, Kind] = {type_: kind for kind, type_ in _TYPES.items()}
CSV_KINDS: tuple[Kind, ...] = ("boolean", "number", "date", "timestamp", "instant")
JSON_KINDS: tuple[Kind, ...] = ("special", "date", "timestamp", "instant")  # a number in quotes is a text there
_FIRST_DAY, _LAST_DAY = -62_135_596_800_000_000, 253_402_300_799_999_999  # of the years 1 to 9999, in microseconds


class Numbers(Struct):
    """Common properties of the numbers of a column."""

    are_whole: bool = True
    fit_bigint: bool = True
    fit_double: bool = True  # which keeps all of their digits
    are_plain: bool = True  # without exponent
    are_padded: bool = False  # some with zeros at the end
    scales: list[int] = field(default_factory=list)  # numbers of digits behind the point
    digits: int = 1  # before the point, at most

    def add(self, texts: pa.Array) -> None:
        """Add numbers as they are written, without nulls."""
        if not len(texts):
            return
        whole = _match(_WHOLE, texts)
        if pc.all(whole).as_py():
            self._add_whole(texts)
            return
        integers, special, pointed = (_match(pattern, texts) for pattern in (_INTEGER, _SPECIAL, _POINT))
        self._add_whole(texts.filter(integers))
        self.are_whole = self.are_whole and bool(pc.all(integers).as_py())
        points = texts.filter(pc.match_substring(texts, "."))
        points = points.filter(_match(_POINT, points))
        if len(points):
            mark = pc.find_substring(points, ".")
            scales = pc.subtract(pc.utf8_length(points), pc.add(mark, 1))
            self.scales = sorted({*self.scales, *pc.unique(scales).to_pylist()})
            self.digits = max(self.digits, pc.max(mark).as_py())
            self.are_padded = self.are_padded or bool(pc.any(pc.match_substring_regex(points, _PADDED)).as_py())
            self._check_double(points)
        others = texts.filter(pc.invert(pc.or_(pc.or_(integers, pointed), special)))
        self.are_plain = self.are_plain and not len(others) and not pc.any(special).as_py()
        self.fit_double = self.fit_double and all(map(_is_kept, others.to_pylist()))

    def _add_whole(self, texts: pa.Array) -> None:
        """Add whole numbers."""
        if not len(texts):
            return
        size = pc.max(pc.utf8_length(pc.utf8_ltrim(texts, "-"))).as_py()
        self.digits = max(self.digits, size)
        if size > 18:
            long = texts.filter(pc.greater(pc.utf8_length(texts), 18)).to_pylist()
            self.fit_bigint = self.fit_bigint and all(-(2**63) <= int(text) < 2**63 for text in long)
        if size > DOUBLE_DIGITS:
            self._check_double(texts)

    def _check_double(self, texts: pa.Array) -> None:
        if self.fit_double:
            digits = pc.replace_substring_regex(pc.replace_substring(texts, ".", ""), r"^-?0*", "")
            long = texts.filter(pc.greater(pc.utf8_length(digits), DOUBLE_DIGITS)).to_pylist()
            self.fit_double = all(map(_is_kept, long))

    def merge(self, other: Numbers) -> None:
        self.are_whole = self.are_whole and other.are_whole
        self.fit_bigint = self.fit_bigint and other.fit_bigint
        self.fit_double = self.fit_double and other.fit_double
        self.are_plain = self.are_plain and other.are_plain
        self.are_padded = self.are_padded or other.are_padded
        self.scales = sorted({*self.scales, *other.scales})
        self.digits = max(self.digits, other.digits)

    def decide(self, are_numbers: bool) -> pa.DataType | None:
        """Return the type that keeps the digits as they are written; for what surely are numbers, one that keeps their
        values. None without one.
        """
        scale = max(self.scales, default=0)
        fits_decimal = self.are_plain and self.digits + scale <= MAX_DIGITS
        if self.are_whole and self.fit_bigint:
            return pa.int64()
        if self.fit_double and not self.are_padded and not self.are_whole:
            return pa.float64()
        if fits_decimal and (len(self.scales) == 1 or (are_numbers and self.are_whole)):
            return pa.decimal128(MAX_DIGITS, scale)
        if are_numbers and self.fit_double:
            return pa.float64()
        return pa.decimal128(MAX_DIGITS, scale) if are_numbers and fits_decimal else None


class Texts(Struct):
    """What the texts of a column look like, of the kinds of types that they may have."""

    kinds: tuple[Kind, ...]
    numbers: Numbers = field(default_factory=Numbers)
    is_empty: bool = True

    def add(self, texts: pa.Array) -> None:
        texts = texts.drop_null()
        if not len(texts) or (not self.kinds and not self.is_empty):
            return
        self.is_empty = False
        self.kinds = tuple(kind for kind in self.kinds if _has_kind(texts, kind))
        if "number" in self.kinds:
            self.numbers.add(texts)

    def merge(self, other: Texts) -> None:
        self.is_empty = self.is_empty and other.is_empty
        self.kinds = tuple(kind for kind in self.kinds if kind in other.kinds)
        self.numbers.merge(other.numbers)

    def decide(self) -> pa.DataType:
        """Return the type of the texts: a text where no other keeps them."""
        if self.is_empty or not self.kinds:
            return pa.string()
        if self.kinds[0] == "number":
            return self.numbers.decide(are_numbers=False) or pa.string()
        return _TYPES[self.kinds[0]]


def convert_texts(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return texts as values of a type without parts; raise ValueError where one is not a value of it.

    A value may be written in another way, like 1.50 in a double, but loses nothing.
    """
    if pa.types.is_string(type_):
        return texts
    if pa.types.is_binary(type_):
        decoded = [None if text is None else base64.b64decode(text, validate=True) for text in texts.to_pylist()]
        return pa.array(decoded, type_)
    filled = texts.drop_null()
    if type_ in _KINDS and type_ != pa.float64():
        _require(_match(_PATTERNS[_KINDS[type_]], filled), type_)
        return _convert_kind(texts, type_)
    if pa.types.is_floating(type_):
        numbers = Numbers()
        numbers.add(filled)
        _require(_match(_NUMBER_TOKEN, filled), type_)
        if not numbers.fit_double:
            raise pa.ArrowInvalid(f"more digits than {type_} has")
        doubles = pc.cast(texts, pa.float64())
        singles = pc.cast(doubles, type_)
        if type_ == pa.float32() and not pc.cast(pc.cast(singles, pa.string()), pa.float64()).equals(doubles):
            raise pa.ArrowInvalid("more digits than float has")
        return singles
    _require(_match(_INTEGER + (f"|{_POINT}" if pa.types.is_decimal(type_) else ""), filled), type_)
    return pc.cast(texts, type_)


_NUMBER_TOKEN = rf"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|{_SPECIAL}"


def build_texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def _convert_kind(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    if type_ == pa.bool_():
        return pc.equal(pc.ascii_lower(texts), "true")
    if type_ in (TIMESTAMP, INSTANT):
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})0+", r"\1")
    converted = pc.cast(texts, type_)
    if type_ == INSTANT and len(converted.drop_null()):
        bounds = pc.min_max(pc.cast(converted, pa.int64())).as_py()
        if bounds["min"] < _FIRST_DAY or bounds["max"] > _LAST_DAY:
            raise pa.ArrowInvalid("out of range")
    return converted


def _has_kind(texts: pa.Array, kind: Kind) -> bool:
    """Return whether all texts are of a kind, and dates and times exist."""
    if not pc.all(_match(_PATTERNS[kind], texts)).as_py():
        return False
    if kind not in ("date", "timestamp", "instant"):
        return True
    try:
        _convert_kind(texts, _TYPES[kind])
    except pa.ArrowInvalid:
        return False
    return True


def _match(pattern: str, texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, rf"\A(?:{pattern})\z")


def _require(matches: pa.Array, type_: pa.DataType) -> None:
    if not pc.all(matches, min_count=0).as_py():
        raise pa.ArrowInvalid(f"not {type_}")


def _is_kept(text: Any) -> bool:
    """Return whether a double keeps a number: as its shortest text, or as the one with 17 digits."""
    value = float(text)
    if repr(value) == text:
        return True
    return math.isfinite(value) and Decimal(text) in (Decimal(repr(value)), Decimal(f"{value:.16e}"))
