"""The driver's reports as Dagster metadata: numbers, columns, and a preview of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dagster import MetadataValue, TableColumn, TableRecord, TableSchema

Columns = Sequence[Mapping[str, str]]
Rows = Sequence[Mapping[str, Any]]
MAX_CELL_CHARACTERS = 200


def build_stage_metadata(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a `stage` message, without fields that the driver left out."""
    metadata: dict[str, Any] = {name: report[name] for name in ("rows", "pages", "errors") if name in report}
    if "seconds" in report:
        metadata["seconds"] = float(report["seconds"])
    if report.get("selectors"):
        metadata["selectors"] = _build_selectors(report["selectors"])
    columns = report.get("columns") or ()
    if columns:
        metadata["columns"] = MetadataValue.table_schema(_build_schema(columns))
    if columns and report.get("preview"):
        metadata["preview"] = _build_preview(columns, report["preview"])
    return metadata


def build_publication_metadata(payload: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of the job's asset, from the completion payload and the output's `stage` message."""
    columns = output.get("columns") or json.loads(payload.get("outputDatasetSchema") or "[]")
    metadata = {
        "dagster/row_count": payload.get("recordsOutput"),
        "dagster/column_schema": _build_schema(columns),
        "preview": _build_preview(columns, output["preview"]) if output.get("preview") else None,
        "path": MetadataValue.path(payload["outputDatasetPath"]) if payload.get("outputDatasetPath") else None,
        "size (bytes)": payload.get("outputFileSizeBytes"),
        "seconds": payload.get("durationSeconds"),
        "CPU seconds": payload.get("totalCpuTimeSeconds"),
        "driver memory (bytes)": payload.get("driverMemoryUsedBytes"),
        "executor memory (bytes)": payload.get("executorMemoryUsedBytes"),
        "network (bytes)": (payload.get("metrics") or {}).get("networkBytes"),
        "execution": payload.get("executionId"),
    }
    return {name: value for name, value in metadata.items() if value is not None}


def _build_selectors(selectors: Rows) -> MetadataValue:
    """Return a table of the pages that selectors were applied to, and of those on which they found nothing."""
    schema = TableSchema(
        [TableColumn(name) for name in ("column", "selector")]
        + [TableColumn(name, "int") for name in ("pages", "empty")]
    )
    names = [column.name for column in schema.columns]
    return MetadataValue.table([TableRecord({name: each[name] for name in names}) for each in selectors], schema)


def _build_schema(columns: Columns) -> TableSchema:
    return TableSchema([TableColumn(column["name"], column["type"]) for column in columns])


def _build_preview(columns: Columns, rows: Rows) -> MetadataValue:
    names = [column["name"] for column in columns]
    records = [TableRecord({name: _format_cell(row.get(name)) for name in names}) for row in rows]
    return MetadataValue.table(records, _build_schema(columns))


def _format_cell(value: Any) -> str | int | float | bool | None:
    """Return the value as Dagster's tables accept it: anything but text, numbers and booleans becomes JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 1] + "…"
