"""The checks of a local run's output, and the rows that they set aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pipelines.columns.types import get_columns, parse_type
from pipelines.engine.result_checks import (
    CheckResult,
    Rejected,
    check_columns,
    check_rejected_columns,
    judge,
    judge_rejected,
    list_row_checks,
)
from pipelines.language.columns import Columns
from pipelines.planning.check import REJECTED_CHECK, REJECTED_REASON, Check, CheckCall
from pipelines.planning.past import CheckContext

_POSITION = "__row"


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of an output, and those that its checks have set aside: None where no check does that.

    `counts` are by the position of the check.
    """

    output: pa.Table
    rejected: pa.Table | None = None
    counts: Mapping[int, Rejected] = field(default_factory=dict[int, Rejected])


def set_aside(calls: Sequence[CheckCall], output: pa.Table) -> Split:
    """Set aside each row with the first check that it fails; raise RunError where a check cannot be computed."""
    checks = list_row_checks(calls)
    if not checks:
        return Split(output)
    check_rejected_columns(calls, output.column_names)
    left, parts, counts = output.append_column(_POSITION, pa.array(range(output.num_rows))), [], dict[int, Rejected]()
    for number, call, check in checks:
        reasons = check.list_reasons(left, get_columns(output.schema))
        failed = left.append_column(REJECTED_REASON, reasons).filter(reasons.is_valid())
        left = left.filter(reasons.is_null())
        texts = failed.column(REJECTED_REASON).to_pylist()
        counts[number] = Rejected(len(texts), min(texts, key=str.encode, default=None))
        titles = pa.array([str(call)] * failed.num_rows, pa.string())
        parts.append(failed.add_column(failed.num_columns - 1, REJECTED_CHECK, titles))
    rejected = pa.concat_tables(parts).sort_by(_POSITION)
    return Split(left.drop_columns([_POSITION]), rejected.drop_columns([_POSITION]), counts)


def find_rejection(
    calls: Iterable[CheckCall], columns: Columns, values: Mapping[str, object]
) -> tuple[str, str] | None:
    """Return the check that sets a single row aside, and the reason; checks that need Spark are left out."""
    known = {name: parse_type(type_) for name, type_ in columns.types if name not in columns.json_names}
    cells = {name: pa.array([values.get(name)], known.get(name)) for name in columns}
    row = pa.table(cells)
    types = get_columns(row.schema)
    split = set_aside([each for each in calls if not each.check.needs_spark(types)], row)
    found = split.rejected.to_pylist() if split.rejected is not None else ()
    return next(((each[REJECTED_CHECK], each[REJECTED_REASON]) for each in found), None)


def run_checks(calls: Sequence[CheckCall], split: Split, context: CheckContext) -> tuple[CheckResult, ...]:
    """Compute the checks over the rows that are left; raise RunError for one that cannot be computed."""
    rows = split.output.num_rows + (split.rejected.num_rows if split.rejected is not None else 0)
    columns = get_columns(split.output.schema)
    results: list[CheckResult] = []
    for number, call in enumerate(calls):
        if number in split.counts:
            results.append(judge_rejected(call, split.counts[number], rows))
            continue
        check_columns(call, split.output.column_names)
        measured = {**call.check.measure_locally(split.output, columns), Check.ROWS: split.output.num_rows}
        results.append(judge(call, measured, context))
    return tuple(results)
