"""Checks of a pipeline's output, under the top-level key `checks`: run before the output is published.

A check is a frozen pydantic model of its arguments. `measure` returns aggregates over the output rows, all of which are
computed together; `find_fault` returns a sentence when the measured values fail the check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveFloat, model_validator

from pipelines.errors import ArgumentError
from pipelines.language.arguments import Arguments
from pipelines.language.columns import JSON, UNKNOWN, Columns, quote_column
from pipelines.language.names import validate_choice
from pipelines.language.nodes import Node
from pipelines.language.parameters import parse_column_reference
from pipelines.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

_EXAMPLE_LENGTH = 50  # characters of a value in a message


class Severity(StrEnum):
    ERROR = "error"
    WARN = "warn"


def _read_column(value: object) -> object:
    return (parse_column_reference(value) or value) if isinstance(value, str) else value


def _read_columns(value: object) -> object:
    items: list[Any] | tuple[Any, ...] = value if isinstance(value, list | tuple) else (value,)
    return [_read_column(item) for item in items]


ColumnName = Annotated[str, BeforeValidator(_read_column), Field(min_length=1)]
ColumnNames = Annotated[tuple[ColumnName, ...], BeforeValidator(_read_columns), Field(min_length=1)]


class Check(Arguments):
    """Base of checks; `ROWS` is the name of the number of rows among the measured values."""

    ROWS: ClassVar[str] = "rows"

    severity: Annotated[Severity, validate_choice("severity", Severity)] = Field(
        default=Severity.ERROR, description="error fails the run, and warn writes a warning to its log"
    )

    def list_columns(self) -> tuple[str, ...]:
        """Return the names of the output columns that the check reads."""
        return ()

    def describe(self) -> str:
        """Return a few words about the arguments, which follow the check's name."""
        return ", ".join(self.list_columns())

    def measure(self) -> Mapping[str, Column]:
        """Return aggregates over the output rows, with names of the check's own."""
        return {}

    def needs_spark(self, columns: Columns) -> bool:
        """Return whether only Spark measures the check over rows with these columns."""
        return True

    def measure_locally(self, rows: pa.Table) -> Mapping[str, Any]:
        """Return the same values as `measure`."""
        raise NotImplementedError

    def find_fault(self, measured: Mapping[str, Any], limit: int | None) -> str | None:
        """Return a sentence when the measured values fail the check; a run's `limit` has cut the output."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CheckCall:
    """One check of a pipeline; `path` is `checks[0]`."""

    name: str
    check: Check
    node: Node
    path: str

    @property
    def location(self) -> str:
        """The line and the name, for errors."""
        return f"line {self.node.line}: check {self.name}" if self.node.line else f"check {self.name}"

    def __str__(self) -> str:
        return f"{self.name} {self.check.describe()}".rstrip()


CHECKS: Registry[type[Check]] = Registry("check")


def register_check(name: str) -> Callable[[type[Check]], type[Check]]:
    """Class decorator that registers a check under its name."""

    def register(cls: type[Check]) -> type[Check]:
        CHECKS.add(name, thing=cls)
        return cls

    return register


def _format_share(count: int, rows: int) -> str:
    return f"{count:,} of {_format_rows(rows)}"


def _format_rows(rows: int) -> str:
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


_NAN = object()
_SINGLE_TYPES = ("string", "bigint", "int", "double", "boolean", "date", "timestamp", "decimal", JSON, UNKNOWN)


class LocalCheck(Check):
    """Base of checks that one process measures as Spark does, where their columns are of `local_types`."""

    local_types: ClassVar[tuple[str, ...]] = ("string",)

    def needs_spark(self, columns: Columns) -> bool:
        types = dict(columns.types)
        names = (types.get(name, "").partition("(")[0] for name in self.list_columns())
        return any(name not in self.local_types for name in names)


@register_check("row_count")
class RowCount(LocalCheck):
    """The number of rows is at least `min` and at most `max`.

    In a run with a limit, as many rows as the limit are enough.
    """

    min: NonNegativeInt | None = None
    max: NonNegativeInt | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.min is None and self.max is None:
            raise ArgumentError("give 'min', 'max' or both", "missing-argument")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ArgumentError("'min' is greater than 'max'", "conflicting-arguments")
        return self

    def describe(self) -> str:
        limits = {"at least": self.min, "at most": self.max}
        return ", ".join(f"{word} {number}" for word, number in limits.items() if number is not None)

    def measure_locally(self, rows: pa.Table) -> Mapping[str, Any]:
        return {}

    def find_fault(self, measured: Mapping[str, Any], limit: int | None) -> str | None:
        rows = measured[self.ROWS]
        least = self.min or 0
        if rows < (least if limit is None else min(least, limit)):
            return f"the output has {_format_rows(rows)}, and should have at least {least:,}"
        if self.max is not None and rows > self.max:
            return f"the output has {_format_rows(rows)}, and should have at most {self.max:,}"
        return None


@register_check("not_null")
class NotNull(LocalCheck):
    """The columns have a value in every row."""

    local_types = _SINGLE_TYPES
    columns: ColumnNames

    def list_columns(self) -> tuple[str, ...]:
        return self.columns

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        return {name: F.count_if(F.col(quote_column(name)).isNull()) for name in self.columns}

    def measure_locally(self, rows: pa.Table) -> Mapping[str, Any]:
        return {name: rows.column(name).null_count for name in self.columns}

    def find_fault(self, measured: Mapping[str, Any], limit: int | None) -> str | None:
        rows = measured[self.ROWS]
        nulls = [f"{name} is null in {_format_share(measured[name], rows)}" for name in self.columns if measured[name]]
        return ", ".join(nulls) or None


@register_check("unique")
class Unique(LocalCheck):
    """No two rows are equal in the columns together; rows with a null in one of them are not compared."""

    local_types = _SINGLE_TYPES
    columns: ColumnNames

    def list_columns(self) -> tuple[str, ...]:
        return self.columns

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        columns = [F.col(quote_column(name)) for name in self.columns]
        null = F.lit(False)
        for column in columns:
            null = null | column.isNull()
        return {"compared": F.count_if(~null), "distinct": F.count_distinct(*columns)}

    def measure_locally(self, rows: pa.Table) -> Mapping[str, Any]:
        keys = zip(*(map(_replace_nan, rows.column(name).to_pylist()) for name in self.columns), strict=True)
        compared = [key for key in keys if None not in key]
        return {"compared": len(compared), "distinct": len({*compared})}

    def find_fault(self, measured: Mapping[str, Any], limit: int | None) -> str | None:
        repeated = measured["compared"] - measured["distinct"]
        together = f"{', '.join(self.columns)} {'repeat' if len(self.columns) > 1 else 'repeats'}"
        return f"{together} an earlier row in {_format_share(repeated, measured[self.ROWS])}" if repeated else None


def _replace_nan(value: object) -> object:
    """Return a value that equals itself, as NaN does in Spark."""
    return value if value == value else _NAN


@register_check("accepted_values")
class AcceptedValues(LocalCheck):
    """The column has only these values, or null. Numbers are compared as numbers, and texts as texts."""

    column: ColumnName
    values: tuple[bool | int | float | str, ...] = Field(min_length=1)

    def list_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def describe(self) -> str:
        return f"{self.column} in {', '.join(map(str, self.values))}"

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        column, accepted = F.col(quote_column(self.column)), F.lit(False)
        for value in self.values:
            type_ = "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "double"
            text = column.cast("string")
            accepted = accepted | F.coalesce(text.try_cast(type_) == F.lit(value), F.lit(False))
        other = F.when(column.isNotNull() & ~accepted, column.cast("string"))
        return {"others": F.count(other), "example": F.min(F.substring(other, 1, _EXAMPLE_LENGTH))}

    def needs_spark(self, columns: Columns) -> bool:
        return super().needs_spark(columns) or not all(isinstance(value, str) for value in self.values)

    def measure_locally(self, rows: pa.Table) -> Mapping[str, Any]:
        texts = (text for text in rows.column(self.column).to_pylist() if text is not None)
        others = [text[:_EXAMPLE_LENGTH] for text in texts if text not in self.values]
        return {"others": len(others), "example": min(others, key=str.encode, default=None)}

    def find_fault(self, measured: Mapping[str, Any], limit: int | None) -> str | None:
        if not measured["others"]:
            return None
        others = _format_share(measured["others"], measured[self.ROWS])
        return f"{self.column} has other values in {others}, such as '{measured['example']}'"


@register_check("filled")
class Filled(LocalCheck):
    """The column has a value in at least the share `min` of the rows; blank texts and empty lists are no values."""

    local_types = _SINGLE_TYPES
    column: ColumnName
    min: float = Field(default=1.0, gt=0, le=1, description="share of the rows")

    def list_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def describe(self) -> str:
        return f"{self.column} in at least {self.min:.0%} of the rows"

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        text = F.trim(F.col(quote_column(self.column)).cast("string"))
        return {"filled": F.count_if(text.isNotNull() & ~text.isin("", "[]", "{}"))}

    def measure_locally(self, rows: pa.Table) -> Mapping[str, Any]:
        texts = (str(value) for value in rows.column(self.column).to_pylist() if value is not None)
        return {"filled": sum(text.strip(" ") not in ("", "[]", "{}") for text in texts)}

    def find_fault(self, measured: Mapping[str, Any], limit: int | None) -> str | None:
        rows, filled = measured[self.ROWS], measured["filled"]
        if filled >= self.min * rows:
            return None
        return f"{self.column} is filled in {_format_share(filled, rows)}, and should be in {self.min:.0%} of them"


@register_check("freshness")
class Freshness(Check):
    """The newest time in the column is at most this many hours old; a text is a time in ISO 8601."""

    column: ColumnName
    hours: PositiveFloat

    def list_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def describe(self) -> str:
        return f"{self.column} within {self.hours:g} hours"

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        time = F.col(quote_column(self.column)).cast("string").try_cast("timestamp")
        return {"newest": F.unix_micros(F.max(time))}

    def find_fault(self, measured: Mapping[str, Any], limit: int | None) -> str | None:
        if not measured[self.ROWS]:
            return None
        if measured["newest"] is None:
            return f"{self.column} has no time in any row"
        newest = datetime.fromtimestamp(measured["newest"] / 1e6, UTC)
        if datetime.now(UTC) - newest <= timedelta(hours=self.hours):
            return None
        return f"the newest {self.column} is {newest:%Y-%m-%d %H:%M} UTC, more than {self.hours:g} hours ago"
