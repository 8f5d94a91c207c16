"""Cron expressions: which are accepted, how they are translated for Dagster, and when they fire.

Five fields, words such as `@daily`, and Quartz's six fields with seconds 0 are accepted. `Cron.iterate` is the one
definition of a schedule's ticks, which Dagster's daemon and pages use too (orchestration/dagster_internals.py).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from core.errors import BadInput
from pipelines.language.names import truncate_name

LONGEST = 255
DAYS_IN_MONTH = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
SMALLEST, LARGEST = (0, 0, 1, 1), (59, 23, 31, 12)
FIELDS = ("minute", "hour", "day of month", "month", "weekday")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
HINT = "Write minute, hour, day of month, month and weekday, such as 30 6 * * MON-FRI, or a word such as @daily."
_WEEKDAY_TERM = re.compile(r"(\*|[A-Z]{3}|[0-9])(?:-([A-Z]{3}|[0-9]))?(?:/([0-9]{1,3}))?")
_RANGE_TERM = re.compile(r"([0-9]{1,2})(?:-([0-9]{1,2}))?(?:/([0-9]{1,3}))?")
_WINDOW = timedelta(days=2)  # an offset from UTC, and a change of it, are shorter


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields that fires."""

    expression: str

    @property
    def follows_real_time(self) -> bool:
        """Whether its hours are a wildcard or step, so that it fires at equal distances when the clock changes."""
        return self.expression.split()[1].startswith("*")

    def iterate(self, after: datetime, timezone: str) -> Iterator[datetime]:
        """Yield the times in UTC after this one, in order.

        With fixed hours, it fires once at a local time that occurs twice, the second time, and at the next valid
        minute where the local time is skipped. With a wildcard or step of hours it follows real time.
        """
        zone = ZoneInfo(timezone)
        local, later = (at.astimezone(zone).replace(tzinfo=None) for at in (after, after + _WINDOW))
        start = min(local, later - _WINDOW)  # the clock may go back
        if self.follows_real_time:
            moments = heapq.merge(*(self._list_moments(start, zone, fold) for fold in (0, 1)))
        else:
            moments = (_locate(naive, zone) for naive in CronSim(self.expression, start))
        last = after
        for tick in moments:
            if tick > last:
                last = tick
                yield tick

    def _list_moments(self, start: datetime, zone: ZoneInfo, fold: int) -> Iterator[datetime]:
        """Yield the first or the second moment of every local time that matches and exists, in order."""
        for naive in CronSim(self.expression, start):
            tick = naive.replace(tzinfo=zone, fold=fold).astimezone(UTC)
            if tick.astimezone(zone).replace(tzinfo=None) == naive:
                yield tick

    def list_next(self, after: datetime, timezone: str, number: int) -> list[datetime]:
        """Return the next times in UTC, at most this many."""
        return [tick for tick, _ in zip(self.iterate(after, timezone), range(number), strict=False)]


@lru_cache(maxsize=4096)
def parse_cron(text: str, path: str = "cronSchedule") -> Cron:
    """Return the expression in five fields; raise BadInput for one that is invalid or cannot be fired."""
    fields = WORDS.get(text.strip().lower(), text).upper().split()
    if len(text) > LONGEST or not 5 <= len(fields) <= 7:
        raise _reject(path, f"'{path}' is no cron schedule. {HINT}")
    cron = Cron(" ".join(_translate(path, fields)))
    minute, hour, day, month, weekday = cron.expression.split()
    never = "'{}' never fires: {}. " + HINT
    start = datetime(2024, 1, 1)  # noqa: DTZ001
    try:
        longest = max(DAYS_IN_MONTH[number] for number in CronSim(f"0 0 * {month} *", start).months)
        if min(CronSim(f"0 0 {day} * *", start).days) > longest:
            if weekday[0] != "*":  # either is enough, and Dagster refuses days that do not exist
                return Cron(f"{minute} {hour} * {month} {weekday}")
            reason = f"its months have at most {longest} days"
            raise _reject(path, never.format(path, reason), "unsupported-cron")
        next(CronSim(cron.expression, start))
    except CronSimError as error:
        raise _reject(path, f"'{path}' is no cron schedule: {str(error).lower()}. {HINT}") from error
    except StopIteration:
        raise _reject(path, never.format(path, "no date matches"), "unsupported-cron") from None
    return cron


def parse_timezone(name: str, path: str = "timezone") -> str:
    """Return the name of a timezone of the IANA database; raise BadInput for another."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError) as error:  # also ZoneInfoNotFoundError, which is a KeyError
        raise _reject_timezone(name, path) from error
    except KeyError as error:
        raise _reject_timezone(name, path) from error
    return name


def _locate(naive: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment of a local time: the later of two, or the first one after a gap."""
    tick = naive.replace(tzinfo=zone, fold=1).astimezone(UTC)
    while tick.astimezone(zone).replace(tzinfo=None) != naive:
        naive += timedelta(minutes=1)
        tick = naive.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return tick


def _translate(path: str, fields: list[str]) -> list[str]:
    """Return five fields that cronsim and Dagster read alike."""
    is_quartz = len(fields) > 5
    if len(fields) == 7 and fields.pop() != "*":
        sentence = f"'{path}' names years, which cannot be scheduled. Leave them out, or use a job's scheduledTime."
        raise _reject(path, sentence, "unsupported-cron")
    if is_quartz and fields.pop(0) not in ("0", "00"):
        sentence = f"'{path}' has seconds. A schedule fires at most once a minute: with six fields the first is 0."
        raise _reject(path, sentence, "unsupported-cron")
    for field, name, size in zip(fields, FIELDS, (60, 24, 31, 12, 7), strict=True):
        steps = (int(step) for term in field.split(",") if (step := term.partition("/")[2]).isdecimal())
        if any(step > size for step in steps):
            sentence = (
                f"'{path}' has a step beyond the {size} values of a {name}. Write a smaller one, or other fields."
            )
            raise _reject(path, sentence)
    minute, hour, day, month, weekday = fields
    if is_quartz and "?" not in (day, weekday) and any(map(str.isdigit, weekday.partition("/")[0].partition("#")[0])):
        sentence = f"'{path}' has six fields and a weekday in digits, which are ambiguous. Write its name, such as MON."
        raise _reject(path, sentence, "unsupported-cron")
    day, weekday = ("*" if field == "?" else field for field in (day, weekday))
    if re.search(r"L.|.L|W", day) or ("L" in weekday) or (day == "L" and weekday != "*"):
        sentence = f"'{path}' has L or W, which cannot be scheduled here, except L alone for the last day of a month."
        raise _reject(path, sentence, "unsupported-cron")
    if "#" in weekday and (day != "*" or "," in weekday):
        sentence = f"'{path}' has a weekday with #, which must be the only weekday, with * as the day of the month."
        raise _reject(path, sentence, "unsupported-cron")
    if day.startswith("*/"):  # a day that begins with * would be combined with the weekday differently
        day = ",".join(term.replace("*/", "1-31/") for term in day.split(","))
    if weekday != "*" and "#" not in weekday:
        numbers = {number for term in weekday.split(",") for number in _parse_weekdays(path, term, is_quartz)}
        day, weekday = ("*", "*") if len(numbers) == 7 else (day, ",".join(map(str, sorted(numbers))))
    elif weekday != "*":
        name, _, nth = weekday.partition("#")
        weekday = f"{_number_weekday(path, name, is_quartz) % 7}#{nth}"
    for number, name in enumerate(MONTHS, start=1):
        month = month.replace(name, str(number))
    return [*map(_expand_steps, (minute, hour, day, month), SMALLEST, LARGEST), weekday]


def _expand_steps(field: str, smallest: int, largest: int) -> str:
    """Write steps, ranges of a single number, and those that begin again, as a list: libraries disagree on them."""
    return ",".join(_expand_step(term, smallest, largest) for term in field.split(","))


def _expand_step(term: str, smallest: int, largest: int) -> str:
    match = _RANGE_TERM.fullmatch(term)
    if match is None or match[3] in ("0", "00", "000"):
        return term
    first = int(match[1])
    last = int(match[2]) if match[2] else largest if match[3] else first
    if not smallest <= first <= largest or last > largest or (first < last and not match[3]):
        return term
    size = largest - smallest + 1
    numbers = range(first, (last if first <= last else last + size) + 1, int(match[3] or 1))
    return ",".join(str(number if number <= largest else number - size) for number in numbers)


def _parse_weekdays(path: str, term: str, is_quartz: bool) -> list[int]:
    """Return the weekdays of a name, number, range or step, from 0 for Sunday."""
    match = _WEEKDAY_TERM.fullmatch(term)
    step = int(match[3] or 1) if match else 0
    if match is None or step == 0:
        raise _reject(path, f"'{path}' is no cron schedule: bad weekday. {HINT}")
    if match[1] == "*":
        return list(range(0, 7, step))
    first = _number_weekday(path, match[1], is_quartz)
    if match[2] is None:
        return [each % 7 for each in range(first, 7 if match[3] else first + 1, step)] or [first % 7]
    last = _number_weekday(path, match[2], is_quartz)
    return [each % 7 for each in range(first, last + 1 if first <= last else last + 8, step)]


def _number_weekday(path: str, name: str, is_quartz: bool) -> int:
    if name in WEEKDAYS:
        return WEEKDAYS.index(name)
    number = int(name) - 1 if is_quartz and name.isdigit() else int(name) if name.isdigit() else -1
    if not 0 <= number <= (6 if is_quartz else 7):
        raise _reject(path, f"'{path}' is no cron schedule: bad weekday. {HINT}")
    return number


def _reject(path: str, sentence: str, code: str = "invalid-cron") -> BadInput:
    return BadInput(sentence, path=path, code=code)


def _reject_timezone(name: str, path: str) -> BadInput:
    known = "Write a name of the IANA database, such as Europe/Berlin or UTC."
    sentence = f"'{truncate_name(name)}' is no timezone. {known}"
    return BadInput(sentence, path=path, code="unknown-timezone")
