"""Columns of row transforms without a declared return type: inferred from the rows, then enforced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from pipelines.engine.progress import ProgressReporter
from pipelines.engine.record_batches import OPEN, build_links_schema, build_rows_schema
from pipelines.errors import RunError, StageFailed
from pipelines.language.columns import Columns
from pipelines.planning.plan import Step
from pipelines.planning.planner import check_inferred_names
from pipelines.planning.stage import RowStage
from pipelines.transforms.schema import (
    TypeMismatch,
    Types,
    convert_row,
    fold_names,
    infer_schema,
    keep_matching_values,
    mix_types,
)
from pipelines.transforms.values import loads

SAMPLE_ROWS = 100


class InferredColumns(NamedTuple):
    """The types that rows have shown, and all columns of the rows with them."""

    types: Types
    columns: Columns


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of one step's rows, as sent to the workers."""

    step: str
    transform: str
    fails: bool
    mixes: bool
    types: Types
    schema: pa.Schema

    @classmethod
    def build(cls, inferred: InferredColumns, has_links: bool, step: Step, fails: bool) -> Conversion:
        schema = build_links_schema(inferred.columns) if has_links else build_rows_schema(inferred.columns)
        return cls(step.key, step.name.rpartition(":")[2], fails, mixes_types(step), inferred.types, schema)


def infer_open_columns(sample: Iterable[str], columns: Columns, step: Step) -> InferredColumns | None:
    """Return the columns that the JSON of the sample shows, or else the usual ones of the step; None without any.

    A name has the spelling of the first row that has it. Raise RunError for rows of different types and for invalid
    column names. A step that mixes types has no column whose name differs only in case from one before, or from
    another of the same row: rows with it fail.
    """
    spellings: dict[str, str] = {}
    rows = (fold_names(loads(text), spellings) for text in sample)
    try:
        types = infer_schema(rows, mixes_types(step)) or _get_usual_columns(step)
    except TypeMismatch as error:
        raise RunError(f"{error}; declare the columns as its return type") from None
    if mixes_types(step):
        known = {each.casefold(): each for each in reversed((*columns, *dict(types)))}
        types = tuple(each for each in types if known[each[0].casefold()] == each[0])
    inferred = Columns((*types, *((each, type_) for each, type_ in columns.types if each not in dict(types))))
    if not inferred.types:
        return None
    check_inferred_names(dict(types), inferred)
    return InferredColumns(types, inferred)


def mixes_types(step: Step) -> bool:
    """Return whether all rows show the columns, as text where they are mixed, instead of the first ones."""
    return isinstance(step.stage, RowStage) and step.stage.mixes_types


def _get_usual_columns(step: Step) -> Types:
    """Return the columns of a step whose rows show none."""
    return step.stage.usual_columns if isinstance(step.stage, RowStage) else ()


def describe_lack(first_error: str | None) -> str:
    """Return why the rows show no columns: all have failed, or there are none."""
    if first_error is not None:
        return f"every row failed, the first one so: {first_error}"
    return "it gave no row that tells its columns; a function may declare them as its return type"


def convert_batch(conversion: Conversion, batch: pa.RecordBatch, reporter: ProgressReporter) -> pa.RecordBatch:
    """Return the rows with the inferred columns; a row of other types becomes an error row. Raise StageFailed."""
    cells = {name: batch.column(name) for name in batch.schema.names}
    errors, types = cells["_error"].to_pylist(), conversion.types
    spellings = {name.casefold(): name for name, _ in types}
    rows: list[dict[str, object]] = []
    for position, text in enumerate(cells[OPEN].to_pylist()):
        values = fold_names(loads(text), spellings)
        values = mix_types(values, dict(types)) if conversion.mixes else values
        try:
            rows.append(keep_matching_values(values, types) if errors[position] else convert_row(values, types))
        except TypeMismatch as error:
            rule = "" if conversion.mixes else f", as the first {SAMPLE_ROWS} rows have them"
            errors[position] = f"{conversion.transform}: {error}{rule}"
            if conversion.fails:
                raise StageFailed(conversion.step, RunError(errors[position])) from None
            reporter.get_counts(conversion.step).errors += 1
            rows.append(keep_matching_values(values, types))
    cells["_error"] = pa.array(errors, pa.string())
    for name, _ in types:
        cells[name] = pa.array([row.get(name) for row in rows], conversion.schema.field(name).type)
    return pa.RecordBatch.from_arrays([cells[field.name] for field in conversion.schema], schema=conversion.schema)
