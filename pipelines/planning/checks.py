"""The kinds of checks under the top-level key `checks`, which run before the output is published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from pipelines.errors import ArgumentError, NeedsSpark, RunError
from pipelines.language.columns import Columns, quote_column
from pipelines.language.parameters import has_reference
from pipelines.planning.check import SINGLE_TYPES, Check, ColumnName, ColumnNames, LocalCheck, RowCheck, register_check
from pipelines.planning.past import (
    LEAST,
    MOST,
    CheckContext,
    Figures,
    Usual,
    find_usual,
    format_percent,
    format_rows,
    format_share,
)
from pipelines.sql.expressions import Expression, check_expression, find_expression_columns
from pipelines.sql.predicates import build_condition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

_EXAMPLE_LENGTH = 50  # characters of a value in a message
_NAN = object()

Share = Annotated[float | None, Field(ge=0)]
Over = Annotated[int, Field(ge=LEAST, le=MOST, description="last published executions that the median is taken of")]
OVER = 10


def _check_over(check: Check, compares: bool) -> None:
    if "over" in check.model_fields_set and not compares:
        raise ArgumentError(
            "'over' belongs to a comparison with earlier executions: give 'maxDrop' too", "conflicting-arguments"
        )


@register_check("row_count")
class RowCount(LocalCheck):
    """The number of rows is at least `min` and at most `max`, or changes by at most a share of what is usual.

    In a run with a limit, as many rows as the limit are enough.
    """

    min: NonNegativeInt | None = None
    max: NonNegativeInt | None = None
    max_drop: Share = Field(default=None, alias="maxDrop", le=1, description="share by which the rows may drop")
    max_rise: Share = Field(default=None, alias="maxRise", description="share by which the rows may rise")
    over: Over = OVER

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.min is None and self.max is None and not self._compares:
            raise ArgumentError("give 'min', 'max', 'maxDrop' or 'maxRise'", "missing-argument")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ArgumentError("'min' is greater than 'max'", "conflicting-arguments")
        _check_over(self, self._compares)
        return self

    @property
    def _compares(self) -> bool:
        return self.max_drop is not None or self.max_rise is not None

    def describe(self) -> str:
        limits = {"at least": self.min, "at most": self.max}
        changes = {"drop": self.max_drop, "rise": self.max_rise}
        parts = [f"{word} {number}" for word, number in limits.items() if number is not None]
        return ", ".join([*parts, *(f"{word} {share:g}" for word, share in changes.items() if share is not None)])

    def measure_locally(self, rows: pa.Table, columns: Columns) -> Mapping[str, Any]:
        return {}

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        rows, limit = measured[self.ROWS], context.limit
        least = self.min or 0
        if rows < (least if limit is None else min(least, limit)):
            return f"the output has {format_rows(rows)}, and should have at least {least:,}"
        if self.max is not None and rows > self.max:
            return f"the output has {format_rows(rows)}, and should have at most {self.max:,}"
        usual = self._find_usual(context)
        if not isinstance(usual, Usual):
            return None
        before = f"the output has {format_rows(rows)}, and the last {usual.number} executions a median of"
        if usual.drops(rows, self.max_drop):
            return f"{before} {usual.median:,.10g}: it may drop by at most {format_percent(self.max_drop)}"
        if usual.rises(rows, self.max_rise):
            return f"{before} {usual.median:,.10g}: it may rise by at most {format_percent(self.max_rise)}"
        return None

    def find_note(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        usual = self._find_usual(context)
        return None if usual is None or isinstance(usual, Usual) else usual

    def _find_usual(self, context: CheckContext) -> Usual | str | None:
        return find_usual(context, self.over, lambda figures: figures.rows) if self._compares else None


@register_check("not_null")
class NotNull(RowCheck):
    """The columns have a value in every row."""

    local_types = SINGLE_TYPES
    columns: ColumnNames

    def list_columns(self) -> tuple[str, ...]:
        return self.columns

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        return {name: F.count_if(F.col(quote_column(name)).isNull()) for name in self.columns}

    def measure_locally(self, rows: pa.Table, columns: Columns) -> Mapping[str, Any]:
        return {name: rows.column(name).null_count for name in self.columns}

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        rows = measured[self.ROWS]
        nulls = [f"{name} is null in {format_share(measured[name], rows)}" for name in self.columns if measured[name]]
        return ", ".join(nulls) or None

    def build_reason(self) -> Column:
        from pyspark.sql import functions as F

        return F.coalesce(*(F.when(F.col(quote_column(name)).isNull(), f"{name} is null") for name in self.columns))

    def list_reasons(self, rows: pa.Table, columns: Columns) -> pa.Array:
        import pyarrow as pa

        reasons: list[str | None] = [None] * rows.num_rows
        for name in reversed(self.columns):
            nulls = rows.column(name).is_null().to_pylist()
            reasons = [f"{name} is null" if null else before for null, before in zip(nulls, reasons, strict=True)]
        return pa.array(reasons, pa.string())


@register_check("unique")
class Unique(LocalCheck):
    """No two rows are equal in the columns together; rows with a null in one of them are not compared."""

    local_types = SINGLE_TYPES
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

    def measure_locally(self, rows: pa.Table, columns: Columns) -> Mapping[str, Any]:
        keys = zip(*(map(_replace_nan, rows.column(name).to_pylist()) for name in self.columns), strict=True)
        compared = [key for key in keys if None not in key]
        return {"compared": len(compared), "distinct": len({*compared})}

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        repeated = measured["compared"] - measured["distinct"]
        together = f"{', '.join(self.columns)} {'repeat' if len(self.columns) > 1 else 'repeats'}"
        return f"{together} an earlier row in {format_share(repeated, measured[self.ROWS])}" if repeated else None


def _replace_nan(value: object) -> object:
    """Return a value that equals itself, as NaN does in Spark."""
    return value if value == value else _NAN


@register_check("accepted_values")
class AcceptedValues(RowCheck):
    """The column has only these values, or null. Numbers are compared as numbers, and texts as texts."""

    column: ColumnName
    values: tuple[bool | int | float | str, ...] = Field(min_length=1)

    def list_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def describe(self) -> str:
        return f"{self.column} in {', '.join(map(str, self.values))}"

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        other = self._build_other()
        return {"others": F.count(other), "example": F.min(F.substring(other, 1, _EXAMPLE_LENGTH))}

    def _build_other(self) -> Column:
        """Return a column with the text of a value that is not accepted, else null."""
        from pyspark.sql import functions as F

        column, accepted = F.col(quote_column(self.column)), F.lit(False)
        for value in self.values:
            type_ = "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "double"
            text = column.cast("string")
            accepted = accepted | F.coalesce(text.try_cast(type_) == F.lit(value), F.lit(False))
        return F.when(column.isNotNull() & ~accepted, column.cast("string"))

    def needs_spark(self, columns: Columns) -> bool:
        return super().needs_spark(columns) or not all(isinstance(value, str) for value in self.values)

    def measure_locally(self, rows: pa.Table, columns: Columns) -> Mapping[str, Any]:
        others = [text[:_EXAMPLE_LENGTH] for text in self._list_others(rows) if text is not None]
        return {"others": len(others), "example": min(others, key=str.encode, default=None)}

    def _list_others(self, rows: pa.Table) -> list[str | None]:
        return [None if text in self.values else text for text in rows.column(self.column).to_pylist()]

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        if not measured["others"]:
            return None
        others = format_share(measured["others"], measured[self.ROWS])
        return f"{self.column} has other values in {others}, such as '{measured['example']}'"

    def build_reason(self) -> Column:
        from pyspark.sql import functions as F

        shown = F.substring(self._build_other(), 1, _EXAMPLE_LENGTH)
        return F.concat(F.lit(f"{self.column} is '"), shown, F.lit("'"))

    def list_reasons(self, rows: pa.Table, columns: Columns) -> pa.Array:
        import pyarrow as pa

        others = self._list_others(rows)
        texts = (None if text is None else f"{self.column} is '{text[:_EXAMPLE_LENGTH]}'" for text in others)
        return pa.array(texts, pa.string())


@register_check("expression")
class ExpressionCheck(RowCheck):
    """An SQL expression over the columns is not false in any row; null passes. The SQL is that of the stage filter."""

    sql: Expression

    def list_columns(self) -> tuple[str, ...]:
        return find_expression_columns(self.sql)

    def find_missing_columns(self, present: Iterable[str]) -> list[str]:
        known = {name.casefold() for name in present}  # SQL ignores case
        return [name for name in self.list_columns() if name.casefold() not in known]

    def describe(self) -> str:
        return " ".join(self.sql.split())

    def needs_spark(self, columns: Columns) -> bool:
        read = {name.casefold() for name in self.list_columns()}
        if has_reference(self.sql) or any(name.casefold() in read for name in columns.json_names):
            return True
        return build_condition(self.sql, columns) is None

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        return {"failed": F.count(self.build_reason())}

    def measure_locally(self, rows: pa.Table, columns: Columns) -> Mapping[str, Any]:
        reasons = self.list_reasons(rows, columns)
        return {"failed": len(reasons) - reasons.null_count}

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        failed = measured["failed"]
        return f"the expression is false in {format_share(failed, measured[self.ROWS])}" if failed else None

    def build_reason(self) -> Column:
        from pyspark.sql import functions as F

        return F.when(~F.expr(self._check_sql()), "the expression is false")

    def list_reasons(self, rows: pa.Table, columns: Columns) -> pa.Array:
        import pyarrow as pa

        condition = build_condition(self._check_sql(), columns)
        if condition is None:
            raise NeedsSpark("only Spark evaluates the expression")
        holds = condition(rows).to_pylist()
        return pa.array(["the expression is false" if each is False else None for each in holds], pa.string())

    def _check_sql(self) -> str:
        """Check the SQL again before it runs: the value of a parameter may look like an open parameter."""
        try:
            return check_expression(self.sql)
        except ValueError as error:
            raise RunError(str(error)) from None


@register_check("filled")
class Filled(LocalCheck):
    """The column has a value in at least the share `min` of the rows, or the share drops little from what is usual.

    Blank texts and empty lists are no values. With `maxDrop`, `min` counts only where it is given.
    """

    local_types = SINGLE_TYPES
    column: ColumnName
    min: float = Field(default=1.0, gt=0, le=1, description="share of the rows")
    max_drop: Share = Field(
        default=None, alias="maxDrop", le=1, description="share of the usual share that may be lost"
    )
    over: Over = OVER

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        _check_over(self, self.max_drop is not None)
        return self

    @property
    def _least(self) -> float:
        return self.min if self.max_drop is None or "min" in self.model_fields_set else 0

    def list_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def describe(self) -> str:
        drop = "" if self.max_drop is None else f", drop {self.max_drop:g}"
        return f"{self.column} in at least {self.min:.0%} of the rows{drop}" if self._least else f"{self.column}{drop}"

    def measure(self) -> Mapping[str, Column]:
        from pyspark.sql import functions as F

        text = F.trim(F.col(quote_column(self.column)).cast("string"))
        return {"filled": F.count_if(text.isNotNull() & ~text.isin("", "[]", "{}"))}

    def measure_locally(self, rows: pa.Table, columns: Columns) -> Mapping[str, Any]:
        texts = (str(value) for value in rows.column(self.column).to_pylist() if value is not None)
        return {"filled": sum(text.strip(" ") not in ("", "[]", "{}") for text in texts)}

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        rows, filled = measured[self.ROWS], measured["filled"]
        if filled < self._least * rows:
            return f"{self.column} is filled in {format_share(filled, rows)}, and should be in {self.min:.0%} of them"
        usual = self._find_usual(context)
        if rows and isinstance(usual, Usual) and usual.drops(filled / rows, self.max_drop):
            return (
                f"{self.column} is filled in {filled / rows:.1%} of the rows, and in a median of {usual.median:.1%} in "
                f"the last {usual.number} executions: it may drop by at most {format_percent(self.max_drop)}"
            )
        return None

    def find_note(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        usual = self._find_usual(context)
        return None if usual is None or isinstance(usual, Usual) else usual

    def _find_usual(self, context: CheckContext) -> Usual | str | None:
        def select(figures: Figures) -> float | None:
            return figures.filled.get(self.column)

        return None if self.max_drop is None else find_usual(context, self.over, select)


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

    def find_fault(self, measured: Mapping[str, Any], context: CheckContext) -> str | None:
        if not measured[self.ROWS]:
            return None
        if measured["newest"] is None:
            return f"{self.column} has no time in any row"
        newest = datetime.fromtimestamp(measured["newest"] / 1e6, UTC)
        if datetime.now(UTC) - newest <= timedelta(hours=self.hours):
            return None
        return f"the newest {self.column} is {newest:%Y-%m-%d %H:%M} UTC, more than {self.hours:g} hours ago"
