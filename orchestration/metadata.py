"""What the driver reports of a stage, as Dagster shows it: numbers, columns, and a preview of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dagster import MetadataValue, TableColumn, TableRecord, TableSchema

Columns = Sequence[Mapping[str, str]]
Rows = Sequence[Mapping[str, Any]]
CELL_CHARACTERS = 200


def stage_metadata(report: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a `stage` message; what the driver left out is left out here."""
    metadata: dict[str, Any] = {name: report[name] for name in ("rows", "pages", "errors") if name in report}
    if "seconds" in report:
        metadata["seconds"] = float(report["seconds"])
    columns = report.get("columns") or ()
    if columns:
        metadata["columns"] = MetadataValue.table_schema(table_schema(columns))
    if columns and report.get("preview"):
        metadata["preview"] = preview(columns, report["preview"])
    return metadata


def publication_metadata(payload: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of the job's asset, from the completion payload and the `stage` message of the output."""
    columns = output.get("columns") or json.loads(payload.get("outputDatasetSchema") or "[]")
    known = {
        "dagster/row_count": payload.get("recordsOutput"),
        "dagster/column_schema": table_schema(columns),
        "preview": preview(columns, output["preview"]) if output.get("preview") else None,
        "path": MetadataValue.path(payload["outputDatasetPath"]) if payload.get("outputDatasetPath") else None,
        "size (bytes)": payload.get("outputFileSizeBytes"),
        "seconds": payload.get("durationSeconds"),
        "CPU seconds": payload.get("totalCpuTimeSeconds"),
        "driver memory (bytes)": payload.get("driverMemoryUsedBytes"),
        "executor memory (bytes)": payload.get("executorMemoryUsedBytes"),
        "network (bytes)": (payload.get("metrics") or {}).get("networkBytes"),
        "execution": payload.get("executionId"),
    }
    return {name: value for name, value in known.items() if value is not None}


def table_schema(columns: Columns) -> TableSchema:
    return TableSchema([TableColumn(column["name"], column["type"]) for column in columns])


def preview(columns: Columns, rows: Rows) -> MetadataValue:
    """A table; it knows only text, numbers and booleans, so that all else is shown as JSON."""
    names = [column["name"] for column in columns]
    records = [TableRecord({name: _cell(row.get(name)) for name in names}) for row in rows]
    return MetadataValue.table(records, table_schema(columns))


def _cell(value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…"
