"""The checks of a run's output, computed together in one aggregation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.errors import RunError, summarize_error
from pipelines.passes.result_checks import CheckResult, judge
from pipelines.planning.checks import Check, CheckCall


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
    return tuple(
        judge(call, {**_select_own(measured, number), Check.ROWS: measured[Check.ROWS]}, limit)
        for number, call in enumerate(calls)
    )


def _select_own(measured: Mapping[str, Any], number: int) -> dict[str, Any]:
    prefix = f"{number}."
    return {name.removeprefix(prefix): value for name, value in measured.items() if name.startswith(prefix)}
