"""The checks of a run's output, computed together in one aggregation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.errors import RunError, summarize_error
from pipelines.planning.checks import Check, CheckCall, Severity


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a check ended; `fault` is None when it passed, and `figures` are what was measured."""

    call: CheckCall
    fault: str | None
    figures: Mapping[str, int | float | str] = field(default_factory=dict[str, int | float | str])

    @property
    def failed(self) -> bool:
        """Whether the check fails the run."""
        return self.fault is not None and self.call.check.severity is Severity.ERROR

    def __str__(self) -> str:
        return f"{self.call.location}: {self.fault}" if self.fault else f"{self.call.location}: passed"


def run_checks(calls: Sequence[CheckCall], output: DataFrame, limit: int | None) -> tuple[CheckResult, ...]:
    """Compute the checks over the output rows, which are read once; raise RunError for one that cannot be computed."""
    if not calls:
        return ()
    aggregates = [F.count(F.lit(1)).alias(Check.ROWS)]
    for number, call in enumerate(calls):
        if missing := [name for name in call.check.list_columns() if name not in output.columns]:
            raise RunError(f"{call.location}: the output has no column '{missing[0]}'")
        own = [column.alias(f"{number}.{name}") for name, column in call.check.measure().items()]
        try:
            output.agg(F.lit(1), *own)  # for errors with a line
        except PySparkException as error:
            raise RunError(f"{call.location}: {summarize_error(error)}") from error
        aggregates.extend(own)
    (row,) = output.agg(*aggregates).collect()
    measured = row.asDict()
    return tuple(_judge(number, call, measured, limit) for number, call in enumerate(calls))


def _judge(number: int, call: CheckCall, measured: Mapping[str, Any], limit: int | None) -> CheckResult:
    prefix = f"{number}."
    own = {name.removeprefix(prefix): value for name, value in measured.items() if name.startswith(prefix)}
    own = {Check.ROWS: measured[Check.ROWS], **own}
    figures = {name: each.isoformat() if isinstance(each, datetime) else each for name, each in own.items()}
    return CheckResult(
        call,
        call.check.find_fault(own, limit),
        {name: each for name, each in figures.items() if isinstance(each, int | float | str)},
    )
