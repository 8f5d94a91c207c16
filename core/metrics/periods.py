"""Periods of time, and the whole months and days that lie in one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import TypeVar

from core.errors import BadInput, Detail

Moment = TypeVar("Moment", date, datetime)
DAY = timedelta(days=1)
USUAL = timedelta(days=30)
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class Grain(StrEnum):
    """What totals are kept by."""

    MONTH = "month"
    DAY = "day"

    def floor(self, day: date) -> date:
        """The first day of the one that `day` lies in."""
        return day.replace(day=1) if self is Grain.MONTH else day

    def ceiling(self, day: date) -> date:
        """The first day of the first one that begins at `day` or later."""
        first = self.floor(day)
        return first if first == day else (first + timedelta(days=31)).replace(day=1)


@dataclass(frozen=True, slots=True)
class Parts:
    """A period in disjoint parts: whole months and days from one day up to another, and times at its edges."""

    months: tuple[date, date] | None
    days: tuple[tuple[date, date], ...]
    edges: tuple[tuple[datetime, datetime], ...]


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` up to, and without, `end`; both UTC."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, start: str | None, end: str | None, now: datetime) -> Period:
        """A period from dates (whole days in UTC, the last one included) or times in ISO 8601; BadInput otherwise.

        Without an end it ends now; without a start it has 30 days.
        """
        until = now if end is None else _time("endDate", end, whole_day=DAY)
        since = until - USUAL if start is None else _time("startDate", start, whole_day=timedelta(0))
        if since >= until:
            raise _bad("startDate", "'startDate' is not earlier than 'endDate'.")
        return cls(since, until)

    def parts(self) -> Parts:
        first, last = _day_from(self.start), self.end.date()
        if first >= last:
            edges = _filled((self.start, self.end))
            if first == last:
                edges = _filled((self.start, _midnight(first)), (_midnight(last), self.end))
            return Parts(None, (), edges)
        edges = _filled((self.start, _midnight(first)), (_midnight(last), self.end))
        month, until = Grain.MONTH.ceiling(first), Grain.MONTH.floor(last)
        if month >= until:
            return Parts(None, ((first, last),), edges)
        return Parts((month, until), _filled((first, month), (until, last)), edges)


def _day_from(at: datetime) -> date:
    """The first day that begins at this time or later."""
    return at.date() if at == _midnight(at.date()) else at.date() + DAY


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _filled(*spans: tuple[Moment, Moment]) -> tuple[tuple[Moment, Moment], ...]:
    return tuple((start, end) for start, end in spans if start < end)


def _time(field: str, text: str, whole_day: timedelta) -> datetime:
    try:
        is_date = len(text) <= len("2026-01-31")
        at = _midnight(date.fromisoformat(text)) + whole_day if is_date else datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _bad(field, f"'{field}' is no date or time in ISO 8601, such as 2026-01-31 or {_SHOWN}.") from error
    if not EARLIEST <= at <= LATEST:
        raise _bad(field, f"'{field}' lies outside of the years {EARLIEST.year} to {LATEST.year}.")
    return at


_SHOWN = "2026-01-31T12:00:00Z"


def _bad(field: str, sentence: str) -> BadInput:
    return BadInput(sentence, [Detail(field, sentence)])
