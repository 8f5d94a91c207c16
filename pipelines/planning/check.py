"""Base classes of the checks under the top-level key `checks`, and their registry; the kinds are in `checks.py`.

A check is a frozen pydantic model of its arguments. `measure` returns aggregates over the output rows, all of which are
computed together; `find_fault` returns a sentence when the measured values fail the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pipelines.errors import ArgumentError
from pipelines.language.arguments import Arguments
from pipelines.language.columns import JSON, UNKNOWN, Columns
from pipelines.language.names import validate_choice
from pipelines.language.nodes import Node
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.past import CheckContext, format_percent, format_share
from pipelines.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

REJECTED_CHECK, REJECTED_REASON = "rejected_check", "rejected_reason"
REJECTED_COLUMNS = (REJECTED_CHECK, REJECTED_REASON)
SINGLE_TYPES = ("string", "bigint", "int", "double", "boolean", "date", "timestamp", "decimal", JSON, UNKNOWN)


class Severity(StrEnum):
    ERROR = "error"
    WARN = "warn"
    QUARANTINE = "quarantine"


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

    @field_validator("severity")
    @classmethod
    def _check_severity(cls, severity: Severity) -> Severity:
        if severity is Severity.QUARANTINE and not issubclass(cls, RowCheck):
            raise ArgumentError(
                "this check judges all rows together, so there is no row to set aside: 'severity: quarantine' belongs "
                "to not_null, accepted_values and expression",
                "unsupported-severity",
            )
        return severity

    @property
    def sets_aside(self) -> bool:
        """Whether rows that fail the check are left out of the output."""
        return self.severity is Severity.QUARANTINE

    def list_columns(self) -> tuple[str, ...]:
        """Return the names of the output columns that the check reads."""
        return ()

    def find_missing_columns(self, present: Iterable[str]) -> list[str]:
        """Return the columns that the check reads and the output lacks."""
        known = {*present}
        return [name for name in self.list_columns() if name not in known]

    def describe(self) -> str:
        """Return a few words about the arguments, which follow the check's name."""
        return ", ".join(self.list_columns())

    def measure(self) -> Mapping[str, Column]:
        """Return aggregates over the output rows, with names of the check's own."""
        return {}

    def needs_spark(self, columns: Columns) -> bool:
        """Return whether only Spark measures the check over rows with these columns."""
        return True

    def measure_locally(self, rows: pa.Table, columns: Columns) -> Mapping[str, Any]:
        """Return the same values as `measure`."""
        raise NotImplementedError

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        """Return a sentence when the measured values fail the check."""
        raise NotImplementedError

    def find_note(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        """Return a sentence about a check that has passed, where there is more to say."""
        return None


class LocalCheck(Check):
    """Base of checks that one process measures as Spark does, where their columns are of `local_types`.

    The run decides where the plan does not know the types.
    """

    local_types: ClassVar[tuple[str, ...]] = ("string",)

    def needs_spark(self, columns: Columns) -> bool:
        types = dict(columns.types)
        found = (types.get(name, UNKNOWN if columns.open else "").partition("(")[0] for name in self.list_columns())
        return any(each not in (*self.local_types, UNKNOWN) for each in found)


class RowCheck(LocalCheck):
    """Base of checks that each row passes or fails; with `severity: quarantine` they set aside the rows that fail."""

    severity: Annotated[Severity, validate_choice("severity", Severity)] = Field(
        default=Severity.ERROR,
        description="error fails the run, warn writes a warning to its log, and quarantine sets the rows aside",
    )
    max_share: float = Field(
        default=0.1, alias="maxShare", ge=0, le=1, description="with quarantine: share of the rows that may go aside"
    )

    @model_validator(mode="after")
    def _check_max_share(self) -> Self:
        if "max_share" in self.model_fields_set and not self.sets_aside:
            raise ArgumentError("'maxShare' belongs to 'severity: quarantine'", "conflicting-arguments")
        return self

    def build_reason(self) -> Column:
        """Return a column with the reason why a row fails, null where it passes."""
        raise NotImplementedError

    def list_reasons(self, rows: pa.Table, columns: Columns) -> pa.Array:
        """Return the same values as `build_reason`."""
        raise NotImplementedError

    def find_excess(self, rejected: int, rows: int, example: str | None) -> str | None:
        """Return a sentence when more rows were set aside than may be, with the reason for one of them."""
        if rejected <= self.max_share * rows:
            return None
        share = format_share(rejected, rows)
        most = format_percent(self.max_share)
        return f"{share} would be set aside, for example because {example}, and at most {most} may be"

    def describe_rejected(self, rejected: int, rows: int, example: str | None) -> str | None:
        """Return a sentence about the rows that were set aside; null without any."""
        were = "was" if rejected == 1 else "were"
        return f"{format_share(rejected, rows)} {were} set aside, for example because {example}" if rejected else None


@dataclass(frozen=True, slots=True)
class CheckCall:
    """One check of a pipeline; `path` is `checks[0]`. A service gives a `title` without the values of secrets."""

    name: str
    check: Check
    node: Node
    path: str
    title: str = ""

    @property
    def location(self) -> str:
        """The line and the name, for errors."""
        return f"line {self.node.line}: check {self.name}" if self.node.line else f"check {self.name}"

    def __str__(self) -> str:
        return self.title or f"{self.name} {self.check.describe()}".rstrip()


CHECKS: Registry[type[Check]] = Registry("check")


def register_check(name: str) -> Callable[[type[Check]], type[Check]]:
    """Class decorator that registers a check under its name."""

    def register(cls: type[Check]) -> type[Check]:
        CHECKS.add(name, thing=cls)
        return cls

    return register


def find_reserved_column(calls: Iterable[CheckCall], columns: Iterable[str]) -> tuple[CheckCall, str] | None:
    """Return the first call that sets rows aside, and a column with the name of one that rejected rows get."""
    call = next((each for each in calls if each.check.sets_aside), None)
    clash = next((name for name in columns if name.casefold() in REJECTED_COLUMNS), None)
    return (call, clash) if call and clash else None


def describe_reserved_column(call: CheckCall, column: str) -> str:
    """Return the error of a column with a reserved name."""
    return (
        f"{call.name}: a column cannot be called {column}, which is a column of the rows that 'severity: quarantine' "
        "sets aside; give it another name"
    )
