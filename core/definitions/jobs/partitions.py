"""Partitions of a job: the keys of its dimensions, and the period that each key stands for.

Keys are those of Dagster's definitions: days, weeks and months by the date on which they begin, hours with the time,
and the parts of a key of two dimensions in the order of the parameters' names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import product
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    model_validator,
)

from core.definitions.schedules.cron import parse_timezone
from core.errors import BadInput
from pipelines.language.columns import ENGINE_COLUMNS

MAX_KEYS = 100_000
FIRST_YEAR, LAST = 1970, date(2999, 12, 31)
SEPARATOR = "|"
DATE_FORMAT, HOUR_FORMAT = "%Y-%m-%d", "%Y-%m-%d-%H:%M"


def _check_parameter(name: str) -> str:
    if name.lower() in {each.lower() for each in ENGINE_COLUMNS}:
        raise ValueError(f"the partition's column would be called {name.lower()}, which is the engine's own")
    return name


def _check_timezone(name: str) -> str:
    try:
        return parse_timezone(name)
    except BadInput as error:
        raise ValueError(error.sentence) from error


Parameter = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$"), AfterValidator(_check_parameter)]
PartitionValue = Annotated[str, Field(pattern=r"^\w(?:[\w .+-]{0,98}\w)?$")]
_FROZEN = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TimeDimension(BaseModel):
    """Periods in a timezone, from `start` on; `end` is the last date on which a period may begin."""

    model_config = _FROZEN

    by: Literal["hour", "day", "week", "month"]
    """How long a period is. Weeks begin on Mondays."""
    start: date
    """Date on which the first period begins; weeks and months begin with the next Monday or first of a month."""
    end: date | None = None
    """Last date on which a period begins; without it there is a new period each time that one has closed."""
    timezone: Annotated[str, AfterValidator(_check_timezone)] = "UTC"
    """Timezone of the periods, such as Europe/Rome."""
    parameter: Parameter
    """Parameter of the pipeline that gets the key."""

    @model_validator(mode="after")
    def _check_period(self) -> Self:
        if self.by == "hour" and self.timezone != "UTC":
            raise ValueError("hours are counted in UTC: when clocks go back, an hour of another timezone comes twice")
        if self.end is not None and self.end < self.start:
            raise ValueError("the end lies before the start")
        if self.start.year < FIRST_YEAR or (self.end or self.start) > LAST:
            raise ValueError(f"partitions lie in the years {FIRST_YEAR} to {LAST.year}")
        return self

    @property
    def scheme(self) -> str:
        """What periods of equal keys have in common."""
        return f"{self.parameter}:{self.by}:{self.timezone}"

    @property
    def format(self) -> str:
        return HOUR_FORMAT if self.by == "hour" else DATE_FORMAT

    @property
    def first(self) -> datetime:
        """The time in the timezone, without it, at which the first period begins."""
        return self._ceil(datetime.combine(self.start, datetime.min.time()))

    def iterate(self, at: datetime) -> Iterator[str]:
        """Yield the keys of the periods that have closed at a time."""
        begin = self.first
        while self._has(begin) and self.get_instant(following := self._advance(begin)) <= at:
            yield begin.strftime(self.format)
            begin = following

    def find_closed(self, at: datetime) -> str | None:
        """Return the key of the last period that has closed at a time, None before the first one has."""
        local = at.astimezone(ZoneInfo(self.timezone)).replace(tzinfo=None)
        begin = self._floor(self._floor(local) - timedelta(hours=1))
        return begin.strftime(self.format) if begin >= self.first and self._has(begin) else None

    def find_begin(self, key: str) -> datetime | None:
        """Return the time in the timezone, without it, at which the period of a key begins; None for another text."""
        try:
            begin = datetime.strptime(key, self.format)  # noqa: DTZ007 - of the dimension's timezone
        except ValueError:
            return None
        is_own = begin.strftime(self.format) == key and self._floor(begin) == begin
        return begin if is_own and begin >= self.first and self._has(begin) else None

    def find_end(self, key: str) -> datetime | None:
        """Return the instant at which the period of a key closes."""
        begin = self.find_begin(key)
        return self.get_instant(self._advance(begin)) if begin else None

    def get_last_end(self) -> datetime | None:
        """Return the time in the timezone, without it, at which the last period closes; None without an end."""
        if self.end is None:
            return None
        return self._advance(self._floor(datetime.combine(self.end, datetime.min.time()) + timedelta(hours=23)))

    def get_instant(self, local: datetime) -> datetime:
        return local.replace(tzinfo=ZoneInfo(self.timezone)).astimezone(UTC)

    def _has(self, begin: datetime) -> bool:
        return begin.date() <= (self.end or LAST)

    def _floor(self, local: datetime) -> datetime:
        if self.by == "hour":
            return local.replace(minute=0, second=0, microsecond=0)
        day = local.replace(hour=0, minute=0, second=0, microsecond=0)
        return day.replace(day=1) if self.by == "month" else day - timedelta(days=day.weekday() * (self.by == "week"))

    def _ceil(self, local: datetime) -> datetime:
        return local if self._floor(local) == local else self._advance(self._floor(local))

    def _advance(self, begin: datetime) -> datetime:
        if self.by == "month":
            return (begin + timedelta(days=31)).replace(day=1)
        return begin + timedelta(hours=1 if self.by == "hour" else 24 if self.by == "day" else 24 * 7)


class ValuesDimension(BaseModel):
    """A list of values."""

    model_config = _FROZEN

    values: Annotated[tuple[PartitionValue, ...], Field(min_length=1, max_length=10_000)]
    """The keys: letters, digits, spaces and `_.+-` in between."""
    parameter: Parameter
    """Parameter of the pipeline that gets the key."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if len(set(self.values)) != len(self.values):
            raise ValueError("a value is listed twice")
        return self

    @property
    def scheme(self) -> str:
        return f"{self.parameter}:values"


Dimension = TimeDimension | ValuesDimension


def _find_kind(value: Any) -> str:
    """Return the tag of a dimension by the fields that it shows."""
    values = value.get("values") if isinstance(value, dict) else getattr(value, "values", None)
    return "by" if values is None else "values"


def _to_list(value: object) -> object:
    return [value] if isinstance(value, dict) else value


def _check_dimensions(dimensions: list[Dimension]) -> list[Dimension]:
    if sum(isinstance(each, TimeDimension) for each in dimensions) > 1:
        raise ValueError("only one dimension may be in time")
    if len({each.parameter.lower() for each in dimensions}) < len(dimensions):
        raise ValueError("two dimensions need two parameters")
    return dimensions


PartitionsField = Annotated[
    list[
        Annotated[
            Annotated[TimeDimension, Tag("by")] | Annotated[ValuesDimension, Tag("values")], Discriminator(_find_kind)
        ]
    ],
    Field(max_length=2),
    BeforeValidator(_to_list),
    AfterValidator(_check_dimensions),
]
"""One dimension or a list of at most two; an empty list is a job without partitions."""
_ADAPTER = TypeAdapter[list[Dimension]](PartitionsField)


@dataclass(frozen=True)
class Partitions:
    """The dimensions of a job, in the order of their parameters' names; none for a job without partitions."""

    dimensions: tuple[Dimension, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dimensions)

    @cached_property
    def time(self) -> TimeDimension | None:
        return next((each for each in self.dimensions if isinstance(each, TimeDimension)), None)

    @property
    def scheme(self) -> str:
        """The common ground of equal keys; one of another scheme is another part of the rows."""
        return SEPARATOR.join(each.scheme for each in self.dimensions)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(each.parameter for each in self.dimensions)

    def list_keys(self, at: datetime) -> list[str]:
        """Return the keys at a time, by their first period and value; raise BadInput for too many."""
        parts = [
            list(each.values) if isinstance(each, ValuesDimension) else list(each.iterate(at))
            for each in self.dimensions
        ]
        number = 1
        for part in parts:
            number *= len(part)
        if number > MAX_KEYS:
            message = f"The job has {number:,} partitions, more than {MAX_KEYS:,}. Let them start later, or be longer."
            raise BadInput(message, code="partition-limit", path="partitions")
        return [SEPARATOR.join(each) for each in product(*parts)]

    def list_closed(self, at: datetime) -> list[str]:
        """Return the keys of the last period that has closed at a time, one for every value; none without periods."""
        if self.time is None or (closed := self.time.find_closed(at)) is None:
            return []
        parts = [each.values if isinstance(each, ValuesDimension) else (closed,) for each in self.dimensions]
        return [SEPARATOR.join(each) for each in product(*parts)]

    def split(self, key: str) -> Mapping[str, str]:
        """Return the parts of a key by parameter."""
        return dict(zip(self.parameters, key.split(SEPARATOR), strict=True))

    def join(self, values: Mapping[str, object]) -> str | None:
        """Return the key of these values of parameters; None unless all dimensions have one."""
        if any(name not in values for name in self.parameters):
            return None
        return SEPARATOR.join(str(values[name]) for name in self.parameters)

    def check_key(self, key: str, at: datetime, path: str = "partition") -> None:
        """Raise BadInput for a key that the job has not, or whose period has not closed yet."""
        parts = key.split(SEPARATOR)
        if len(parts) != len(self.dimensions):
            order = SEPARATOR.join(self.parameters)
            raise _make_unknown(key, path, f"a key is {order}")
        for dimension, part in zip(self.dimensions, parts, strict=True):
            if isinstance(dimension, ValuesDimension):
                if part not in dimension.values:
                    shown = ", ".join(dimension.values[:10])
                    raise _make_unknown(key, path, f"{dimension.parameter} is one of {shown}")
            elif (end := dimension.find_end(part)) is None:
                until = f" to {dimension.end}" if dimension.end else ""
                first = dimension.first.strftime(dimension.format)
                hint = f"{dimension.parameter} is the begin of a {dimension.by} such as {first}, from {first}{until}"
                raise _make_unknown(key, path, hint)
            elif end > at:
                message = f"The partition '{key}' closes at {end.isoformat()}. Execute it then."
                raise BadInput(message, code="partition-open", path=path)

    def select_range(self, first: str | None, last: str | None, at: datetime) -> list[str]:
        """Return the keys from one period up to another one, both included; raise BadInput where there is none."""
        keys = self.list_keys(at)
        if first is None and last is None:
            return keys
        if self.time is None:
            raise BadInput("The job has no periods: give 'keys'.", code="invalid-period", path="from")
        position = self.dimensions.index(self.time)
        chosen = [
            key
            for key in keys
            if (part := key.split(SEPARATOR)[position]) >= (first or "") and (last is None or part[: len(last)] <= last)
        ]
        if not chosen:
            shown = f"{keys[0].split(SEPARATOR)[position]} to {keys[-1].split(SEPARATOR)[position]}" if keys else "none"
            message = (
                f"There are no closed partitions from {first or 'the start'} to {last or 'now'}; there are {shown}."
            )
            raise BadInput(message, code="unknown-partition", path="from")
        return chosen


def make_partition_columns(key: str | None, scheme: str | None) -> dict[str, str]:
    """Return the columns of a partition's rows with their values; none without a partition."""
    if key is None or scheme is None:
        return {}
    parameters = (each.partition(":")[0] for each in scheme.split(SEPARATOR))
    return {parameter.lower(): value for parameter, value in zip(parameters, key.split(SEPARATOR), strict=True)}


def split_at_period(key: str, scheme: str) -> tuple[str, str]:
    """Return the parts of a key before and after its period; a key without one is all before."""
    begin = 0
    for dimension, part in zip(scheme.split(SEPARATOR), key.split(SEPARATOR), strict=True):
        if not dimension.endswith(":values"):
            return key[:begin], key[begin + len(part) :]
        begin += len(part) + len(SEPARATOR)
    return key, ""


def dump_partitions(dimensions: Sequence[Dimension]) -> list[dict[str, Any]]:
    """Return dimensions as a job's record has them."""
    return [each.model_dump(mode="json") for each in dimensions]


def read_partitions(stored: Sequence[Any] | None) -> Partitions:
    """Return the partitions that a job's record has."""
    if not stored:
        return Partitions()
    return Partitions(tuple(sorted(_ADAPTER.validate_python(list(stored)), key=lambda each: each.parameter.lower())))


def _make_unknown(key: str, path: str, hint: str) -> BadInput:
    return BadInput(f"The job has no partition '{key[:200]}': {hint}.", code="unknown-partition", path=path)
