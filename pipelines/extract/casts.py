"""Casts of extracted texts and numbers to the type of their column; values that do not fit become null."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from math import isfinite

from pipelines.extract.prices import normalize_signs, read_number

Convert = Callable[[object], object]

_MAX_INT = 2**63 - 1
_MAX_DIGITS = 60  # characters of a number; int() of a long text takes the square of its length
_MAX_PRECISION = 38
_EXACT = Context(prec=2 * _MAX_DIGITS, rounding=ROUND_HALF_UP)
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"[+-]?[\d.,][\d.,' ]*")
_SPACES = re.compile(r"\s")
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)")
_MAIL_DATE = re.compile(
    r"(?:[a-z]{3,9}\.?,?\s+|[a-z]{3},)?(?P<day>\d{1,2})[\s-]+(?P<month>[a-z]{3})[a-z]{0,6}\.?[\s-]+(?P<year>\d{2,4})"
    r"(?:\s+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:\s*(?P<half>[ap])\.?m\b\.?)?"
    r"(?:\s*(?P<sign>[+-])(?P<ahead>\d\d):?(?P<minutes>\d\d)|\s+(?P<zone>[a-z]{1,5}))?(?:\s*\([^()]*\))?)?",
    re.IGNORECASE | re.ASCII,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# hours from UTC; those of other letters are 0, as RFC 5322 has it, but not of other names: IST is of three countries
_ZONES = {
    **dict.fromkeys(("", "ut", "utc", "gmt", "wet"), 0),
    **{"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
    **{"west": 1, "bst": 1, "cet": 1, "met": 1, "cest": 2, "mest": 2, "eet": 2, "eest": 3, "msk": 3, "jst": 9},
    **{"hkt": 8, "sgt": 8, "awst": 8, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13},
}
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_TRIAL = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion to a SQL type; it returns None for a value that does not fit."""

    type: str
    convert: Convert


def parse_cast(text: str, pattern: str | None = None) -> Cast:
    """Return the cast `text`, with the format `pattern` of dates; raise ValueError."""
    name = text.strip().lower()
    if pattern is not None and name not in ("date", "timestamp"):
        raise ValueError("a format is for the casts date and timestamp")
    if pattern is not None:
        _check_format(pattern)
    if found := _DECIMAL.fullmatch(name):
        precision, scale = int(found[1]), int(found[2] or 0)
        if not (0 < precision <= _MAX_PRECISION and scale <= precision):
            raise ValueError(f"a decimal has 1 to {_MAX_PRECISION} digits, and no more of them after the point")
        return Cast(f"decimal({precision},{scale})", partial(_to_decimal, precision, scale))
    match name:
        case "int":
            return Cast("bigint", _to_int)
        case "double":
            return Cast("double", _to_double)
        case "boolean":
            return Cast("boolean", _to_boolean)
        case "date":
            return Cast("date", partial(_to_date, pattern))
        case "timestamp":
            return Cast("timestamp", partial(_to_timestamp, pattern))
        case _:
            raise ValueError(f"'{text[:40]}' is none of int, decimal(p,s), double, date, timestamp and boolean")


def _check_format(pattern: str) -> None:
    try:
        datetime.strptime(_TRIAL.strftime(pattern), pattern)  # noqa: DTZ007
    except (ValueError, re.error) as error:
        raise ValueError(f"the format is none of dates, such as %d.%m.%Y: {error}") from None


def _parse_number(value: object) -> Decimal | None:
    """Return a number; in a text a lone point is the decimal sign, else separators are read as those of prices."""
    if isinstance(value, bool):
        return None
    text = str(value).strip()
    if len(text) > _MAX_DIGITS:
        return None
    text = _SPACES.sub(" ", normalize_signs(text)).replace("\u2212", "-")
    try:
        if _PLAIN.fullmatch(text):
            return Decimal(text)
        if isinstance(value, str) and _GROUPED.fullmatch(text):
            number = read_number(text.lstrip("+-"))
            return -number if number is not None and text.startswith("-") else number
    except InvalidOperation:
        pass
    return None


def _to_int(value: object) -> int | None:
    number = _parse_number(value)
    if number is None or abs(number) > _MAX_INT or number != number.to_integral_value():
        return None
    return int(number)


def _to_double(value: object) -> float | None:
    number = _parse_number(value)
    return float(number) if number is not None and isfinite(float(number)) else None


def _to_decimal(precision: int, scale: int, value: object) -> Decimal | None:
    number = _parse_number(value)
    if number is None or number.adjusted() >= precision - scale:
        return None
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return rounded if rounded.is_zero() or rounded.adjusted() < precision - scale else None


def _to_boolean(value: object) -> bool | None:
    return _BOOLEANS.get(str(value).strip().lower())


def _parse_datetime(pattern: str | None, value: object) -> datetime | None:
    """Return a time of the pattern, or without one of ISO 8601 or of mails, which RSS uses."""
    text = str(value).strip()
    try:
        if pattern:
            return datetime.strptime(text, pattern)  # noqa: DTZ007
        return parse_mail_date(text) or datetime.fromisoformat(text)
    except ValueError:
        return None


def parse_mail_date(text: str) -> datetime | None:
    """Return a time of RFC 5322 or an older one of mails, as feeds have it: the year may have two digits."""
    found = _MAIL_DATE.fullmatch(text.strip())
    if found is None or (month := found["month"].lower()) not in _MONTHS:
        return None
    zone = (found["zone"] or "").lower()
    zone_hours = _ZONES.get(zone, 0 if len(zone) == 1 else None)
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if zone_hours is None or (found["half"] and not 1 <= hour <= 12):
        return None
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] in "pP" else 0)
    year = int(found["year"])
    if len(found["year"]) < 4:  # RFC 5322, section 4.3
        year += 2000 if year < 50 and len(found["year"]) == 2 else 1900
    minutes = 60 * int(found["ahead"] or 0) + int(found["minutes"] or 0)
    ahead = timedelta(minutes=-minutes if found["sign"] == "-" else minutes)
    ahead = ahead or timedelta(hours=zone_hours)
    try:
        second = 59 if second == 60 else second  # a leap second
        tzinfo = timezone(ahead) if ahead else UTC
        return datetime(year, _MONTHS.index(month) + 1, int(found["day"]), hour, minute, second, tzinfo=tzinfo)
    except ValueError:
        return None


def _to_date(pattern: str | None, value: object) -> date | None:
    found = _parse_datetime(pattern, value)
    return found.date() if found else None


def _to_timestamp(pattern: str | None, value: object) -> datetime | None:
    """Return the time in UTC; a text without a zone is in UTC."""
    found = _parse_datetime(pattern, value)
    if found is None:
        return None
    try:
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except OverflowError:
        return None
