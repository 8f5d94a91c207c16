"""Periods of time, and their division into whole months, whole days and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import TypeVar

from core.errors import BadInput, Detail

Moment = TypeVar("Moment", date, datetime)
DAY = timedelta(days=1)
DEFAULT_LENGTH = timedelta(days=30)
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class Grain(StrEnum):
    """The periods that totals are stored for."""

    MONTH = "month"
    DAY = "day"

    def round_down(self, day: date) -> date:
        """Return the first day of the month or day that contains `day`."""
        return day.replace(day=1) if self is Grain.MONTH else day

    def round_up(self, day: date) -> date:
        """Return the first day of the first month or day that begins at `day` or later."""
        first = self.round_down(day)
        return first if first == day else (first + timedelta(days=31)).replace(day=1)


@dataclass(frozen=True, slots=True)
class Parts:
    """Disjoint parts of a period: whole months, whole days, and the times before and after them. Ends are exclusive."""

    months: tuple[date, date] | None
    days: tuple[tuple[date, date], ...]
    edges: tuple[tuple[datetime, datetime], ...]


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to `end`, which is exclusive; both in UTC."""

    start: datetime
    end: datetime

    @classmethod
    def from_texts(cls, start: str | None, end: str | None, now: datetime) -> Period:
        """Parse ISO 8601 dates (whole days in UTC, the last one included) or times. Raises BadInput.

        Without an end the period ends now; without a start it has 30 days.
        """
        until = now if end is None else _parse_time("endDate", end, whole_day=DAY)
        since = until - DEFAULT_LENGTH if start is None else _parse_time("startDate", start, whole_day=timedelta(0))
        if since >= until:
            raise _reject("startDate", "'startDate' is not earlier than 'endDate'.")
        return cls(since, until)

    def split(self) -> Parts:
        """Divide the period, so that as much as possible is whole months and days."""
        first, last = _find_first_day(self.start), self.end.date()
        if first >= last:
            edges = _drop_empty((self.start, self.end))
            if first == last:
                edges = _drop_empty((self.start, _get_midnight(first)), (_get_midnight(last), self.end))
            return Parts(None, (), edges)
        edges = _drop_empty((self.start, _get_midnight(first)), (_get_midnight(last), self.end))
        month, until = Grain.MONTH.round_up(first), Grain.MONTH.round_down(last)
        if month >= until:
            return Parts(None, ((first, last),), edges)
        return Parts((month, until), _drop_empty((first, month), (until, last)), edges)


def _find_first_day(at: datetime) -> date:
    """Return the first day that begins at this time or later."""
    return at.date() if at == _get_midnight(at.date()) else at.date() + DAY


def _get_midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _drop_empty(*spans: tuple[Moment, Moment]) -> tuple[tuple[Moment, Moment], ...]:
    return tuple((start, end) for start, end in spans if start < end)


def _parse_time(field: str, text: str, whole_day: timedelta) -> datetime:
    try:
        is_date = len(text) <= len("2026-01-31")
        at = _get_midnight(date.fromisoformat(text)) + whole_day if is_date else datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _reject(
            field, f"'{field}' is not a date or time in ISO 8601, such as 2026-01-31 or {_EXAMPLE}."
        ) from error
    if not EARLIEST <= at <= LATEST:
        raise _reject(field, f"'{field}' is outside of the years {EARLIEST.year} to {LATEST.year}.")
    return at


_EXAMPLE = "2026-01-31T12:00:00Z"


def _reject(field: str, sentence: str) -> BadInput:
    return BadInput(sentence, [Detail(field, sentence, "invalid-period")])
