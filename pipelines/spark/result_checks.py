"""The checks of a run's output, computed together in one aggregation, and the rows that they set aside."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.engine.result_checks import (
    CheckResult,
    Rejected,
    check_columns,
    check_rejected_columns,
    judge,
    judge_rejected,
    list_row_checks,
)
from pipelines.errors import RunError, summarize_error
from pipelines.planning.check import REJECTED_CHECK, REJECTED_REASON, Check, CheckCall
from pipelines.planning.past import CheckContext

_TAG = "__rejected"


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of a run, and those that its checks have set aside with the reasons: None where no check does that.

    `counts` are by the position of the check.
    """

    rows: DataFrame
    rejected: DataFrame | None = None
    counts: Mapping[int, Rejected] = field(default_factory=dict[int, Rejected])


def tag_rejected(calls: Sequence[CheckCall], rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Mark each row with the first check that it fails; unchanged where no check sets rows aside.

    `columns` are those of the output. Raise RunError where a check cannot be computed.
    """
    checks = list_row_checks(calls)
    if not checks:
        return rows
    check_rejected_columns(calls, columns)
    tags = []
    for number, call, check in checks:
        with _locate_errors(call):
            reason = check.build_reason()
            rows.where(reason.isNotNull())  # for errors with a line; windows and aggregates are some
        tag = F.struct(F.lit(number).alias("number"), reason.alias("reason"))
        tags.append(F.when(reason.isNotNull(), tag))
    return rows.withColumn(_TAG, F.coalesce(*tags))


def split_rejected(calls: Sequence[CheckCall], tagged: DataFrame) -> Split:
    """Return the marked rows apart from the others; they are read several times, and so are cached."""
    checks = list_row_checks(calls)
    if not checks:
        return Split(tagged)
    failed, number, reason = tagged.where(F.col(_TAG).isNotNull()), F.col(f"{_TAG}.number"), F.col(f"{_TAG}.reason")
    counted = failed.groupBy(number).agg(F.count(F.lit(1)), F.min(reason)).collect()
    found = {row[0]: Rejected(row[1], row[2]) for row in counted}
    titles = F.create_map(*(F.lit(each) for number, call, _ in checks for each in (number, str(call))))
    rejected = failed.withColumn(REJECTED_CHECK, titles[number]).withColumn(REJECTED_REASON, reason)
    counts = {number: found.get(number, Rejected()) for number, _, _ in checks}
    return Split(tagged.where(F.col(_TAG).isNull()).drop(_TAG), rejected.drop(_TAG), counts)


def run_checks(
    calls: Sequence[CheckCall], output: DataFrame, counts: Mapping[int, Rejected], context: CheckContext
) -> tuple[CheckResult, ...]:
    """Compute the checks over the output rows, which are read once; raise RunError for one that cannot be computed.

    `counts` are the rows that were set aside before, by the position of the check.
    """
    if not calls:
        return ()
    aggregates = [F.count(F.lit(1)).alias(Check.ROWS)]
    for number, call in enumerate(calls):
        if number in counts:
            continue
        check_columns(call, output.columns)
        own = [column.alias(f"{number}.{name}") for name, column in call.check.measure().items()]
        with _locate_errors(call):
            output.agg(F.lit(1), *own)  # for errors with a line
        aggregates.extend(own)
    (row,) = output.agg(*aggregates).collect()
    measured = row.asDict()
    rows = measured[Check.ROWS]
    all_rows = rows + sum(each.rows for each in counts.values())
    return tuple(
        judge_rejected(call, counts[number], all_rows)
        if number in counts
        else judge(call, {**_select_own(measured, number), Check.ROWS: rows}, context)
        for number, call in enumerate(calls)
    )


@contextmanager
def _locate_errors(call: CheckCall) -> Generator[None]:
    try:
        yield
    except PySparkException as error:
        raise RunError(f"{call.location}: {summarize_error(error)}", call.node.line) from error


def _select_own(measured: Mapping[str, Any], number: int) -> dict[str, Any]:
    prefix = f"{number}."
    return {name.removeprefix(prefix): value for name, value in measured.items() if name.startswith(prefix)}
