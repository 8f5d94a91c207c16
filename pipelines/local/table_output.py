"""The output of a local run as the next version of a Delta or Iceberg table, if it is none that only Spark writes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pipelines.columns.appending import check_merged
from pipelines.columns.types import UnknownType, format_type, get_columns, parse_type
from pipelines.contract.context import RunContext
from pipelines.contract.report import WrittenFiles
from pipelines.contract.request import OUTPUT, Target
from pipelines.errors import NeedsSpark, RunError
from pipelines.language.columns import list_fields
from pipelines.language.engines import LOADED_BYTES, LOADED_ROWS
from pipelines.language.formats import SPLITTING_TYPES, TABLE_FORMATS, Mode, describe_unnamable_column
from pipelines.local.delta_table import LocalDeltaTable
from pipelines.local.iceberg_table import LocalIcebergTable
from pipelines.local.merging import check_keys
from pipelines.local.tables import find_column, name_void
from pipelines.planning.model import Output
from pipelines.planning.plan import Plan
from pipelines.tables.commits import Write, write_version
from pipelines.tables.protocol import SparkOnly
from pipelines.tables.stored import measure_partitions

LocalTable = LocalDeltaTable | LocalIcebergTable
_KINDS: dict[str, type[LocalDeltaTable] | type[LocalIcebergTable]] = {
    "delta": LocalDeltaTable,
    "iceberg": LocalIcebergTable,
}


def open_table(format_: str, location: str) -> LocalTable:
    """Return the table of a format in a folder, which need not exist."""
    return _KINDS[format_](location)


def write_table(rows: pa.Table, format_: str, location: str, write: Write, target: Target) -> WrittenFiles:
    """Write rows as the next version of a table for which `find_need` has found nothing."""
    if fault := describe_unnamable_column(format_, list_fields(get_columns(rows.schema).types)):
        raise RunError(fault)
    check_merged(write.keys, write.within, rows.column_names)
    check_keys(rows, [find_column(rows.column_names, key) for key in write.keys])
    version = write_version(open_table(format_, location), rows, write, target)
    if write.partition:
        parts = measure_partitions(format_, location, version.snapshot, tuple(write.partition))
        version = replace(version, parts=parts)
    return WrittenFiles.from_version(version, rows.num_rows)


def find_need(plan: Plan, context: RunContext, schema: pa.Schema) -> NeedsSpark | None:
    """Return why only Spark writes rows with this schema to the table of the output, and None where this process does.

    Another writer may change the table before the commit, which then fails.
    """
    output, target = plan.output, context.targets.get(OUTPUT, Target())
    location = target.location or _find_own_location(output, context)
    if output.format not in TABLE_FORMATS or location is None:
        return None
    table = open_table(output.format, location)
    with table.explain_failures():
        try:
            obstacle = _find_obstacle(table, plan, target, schema)
        except UnknownType:
            obstacle = SparkOnly.TYPES
    return NeedsSpark(f"only Spark writes the output's {output.format} table: {obstacle}") if obstacle else None


def _find_own_location(output: Output, context: RunContext) -> str | None:
    """Return the folder of a table on a machine without a service."""
    own = context.resolve_local_target(output.own_path) if output.own_path and context.saves_folder is None else None
    return str(own) if own else None


def _find_obstacle(table: LocalTable, plan: Plan, target: Target, schema: pa.Schema) -> SparkOnly | None:
    types = dict(get_columns(schema).types)
    if not all(_is_stored(field.type) for field in schema):
        return SparkOnly.TYPES
    known = {name.casefold(): type_ for name, type_ in types.items()}
    if not {known.get(name.casefold(), "string") for name in plan.output.partition_by} <= SPLITTING_TYPES:
        return SparkOnly.SPLIT
    if (obstacle := table.find_column_obstacle(name_void(schema.empty_table()).schema)) is not None:
        return obstacle
    if not table.exists():
        return None
    if (obstacle := table.find_obstacle()) is not None:
        return obstacle
    mode, adds = plan.output.mode, plan.output.mode is Mode.APPEND or target.fits_types
    rewrites = mode is Mode.MERGE or (adds and table.rewrites(types, target.columns or table.read_columns()))
    rows, size = table.measure() if rewrites else (0, 0)
    return SparkOnly.SIZE if rows > LOADED_ROWS or size > LOADED_BYTES else None


def _is_stored(type_: pa.DataType) -> bool:
    """Return whether a table can have the type, and its name in Spark's SQL is a name for it alone."""
    text = format_type(type_)
    return type_ == pa.null() or (format_type(parse_type(text)) == text and not _has_void(type_))


def _has_void(type_: pa.DataType) -> bool:
    return pa.types.is_null(type_) or any(_has_void(type_.field(at).type) for at in range(type_.num_fields))
