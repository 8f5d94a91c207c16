"""The driver's reports as Dagster metadata: numbers, columns, and a preview of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dagster import AssetCheckResult, AssetCheckSeverity, MetadataValue, TableColumn, TableRecord, TableSchema

from core.infra.settings import Settings
from core.lifecycle.outlines.outlines import CheckOutline, JobOutline
from core.lifecycle.usage.bills import AMOUNTS, MILLION
from core.tables import DatasetVersion, Execution, ExecutionBill
from orchestration.column_metadata import build_columns
from orchestration.compute.protocol import Launch
from orchestration.markdown import format_code
from pipelines.contract.progress import CheckOutcome, ModelProgress, Progress, SelectorProgress, StageReport
from pipelines.contract.request import GIVEN_ROWS, get_input_name

Columns = Sequence[Mapping[str, Any]]
Rows = Sequence[Mapping[str, Any]]
MAX_CELL_CHARACTERS = 200
_MAX_FAILURES = 50  # kinds of failed pages


def build_pipeline(outline: JobOutline) -> MetadataValue:
    """Return the pipeline as text that the UI shows in a separate window."""
    return MetadataValue.md(format_code(outline.pipeline_yaml or "", "yaml"))


def build_links(settings: Settings, execution: Execution) -> dict[str, Any]:
    """Return the pages of the execution and its log, and addresses over REST, which tell a browser to send a key."""
    job = f"{settings.api.service_url}/projects/id/{execution.project_id}/jobs/{execution.job_id}"
    page = f"{settings.api.origin}/console/projects/{execution.project_id}/jobs/{execution.job_id}"
    links: dict[str, Any] = {
        "console": MetadataValue.url(f"{page}/executions/{execution.id}"),
        "REST": MetadataValue.url(f"{job}/executions/{execution.id}"),
    }
    if execution.run_id:
        links["log"] = build_log_link(settings, execution.run_id)
    if execution.dataset_id:
        links["dataset"] = MetadataValue.url(f"{job}/datasets/{execution.dataset_id}")
    return links


def build_driver_metadata(launch: Launch) -> dict[str, Any]:
    """Return the execution's driver, its origin, and how long the execution has waited for it."""
    waited = MetadataValue.float(round(launch.waited_seconds, 1))
    return {"driver": launch.driver, "driver is": launch.source.value, "waited for it (s)": waited}


def build_failure_metadata(settings: Settings, execution: Execution, run_id: str, line: int | None) -> dict[str, Any]:
    """Return where and why an execution has failed: its log, the code, the pipeline's line, pages and checks."""
    lines = execution.pipeline_yaml.splitlines()
    progress = Progress.from_report(execution.progress)
    pages, checks = progress.failed_pages, [each.message or "" for each in progress.checks if not each.passed]
    metadata = {
        "execution": execution.id,
        "attempt": execution.attempt,
        "log": build_log_link(settings, run_id),
        "code": execution.error_code,
        "agent revision": execution.agent_revision,
        "line": line,
        "YAML": MetadataValue.md(format_code(lines[line - 1], "yaml")) if line and line <= len(lines) else None,
        "page": MetadataValue.url(pages[0].url) if pages else None,
        "failed pages": build_failed_pages(progress),
        "checks": "\n".join(checks) or None,
    }
    return {name: value for name, value in metadata.items() if value is not None}


def build_log_link(settings: Settings, run_id: str) -> MetadataValue:
    """Return the address of the run's page with the log of its driver."""
    return MetadataValue.url(f"{settings.dagster.url}/runs/{run_id}?logType=stderr")


def build_check_results(checks: Sequence[CheckOutline], results: Rows) -> Iterator[AssetCheckResult]:
    """Return the results of the checks, which the driver reports in the pipeline's order."""
    for check, result in zip(checks, map(CheckOutcome.model_validate, results), strict=False):
        yield AssetCheckResult(
            check_name=check.name,
            passed=result.passed,
            severity=AssetCheckSeverity.WARN if result.severity == "warn" else AssetCheckSeverity.ERROR,
            description=result.message or result.check,
            metadata={"check": result.check, **result.figures},
        )


def build_stage_metadata(message: Mapping[str, Any], shows_rows: bool) -> dict[str, Any]:
    """Return the metadata of a `stage` message, without fields that the driver left out; none for an empty one."""
    if not message:
        return {}
    stage = StageReport.model_validate(message)
    metadata = stage.model_dump(include={"rows", "pages", "cached", "errors", "seconds"}, exclude_unset=True)
    if stage.selectors:
        metadata["selectors"] = _build_selectors(stage.selectors)
    if stage.columns:
        metadata["columns"] = MetadataValue.table_schema(_build_schema(stage.columns))
    if shows_rows and stage.columns and stage.preview:
        metadata["preview"] = _build_preview(stage.columns, stage.preview)
    return metadata


def build_publication_metadata(
    outline: JobOutline,
    execution: Execution,
    payload: Mapping[str, Any],
    bill: ExecutionBill,
    output: Mapping[str, Any],
    version: DatasetVersion | None,
) -> dict[str, Any]:
    """Return the metadata of the job's asset; the UI draws its numbers over time.

    `payload` is the completion payload, `output` the output's `stage` message, empty where it was lost, and `version`
    the one that the execution has published, or has left as it was.
    """
    written = output.get("columns") or json.loads(payload.get("outputDatasetSchema") or "[]")
    columns = version.columns if version and version.columns else written
    progress = Progress.from_report(execution.progress)
    table = outline.slug if execution.publishes else f"{outline.slug}@{execution.id}"
    metadata = {
        "dagster/row_count": version.row_count if version else execution.metrics.get("records_output"),
        **build_columns(outline, columns),
        "preview": _build_preview(columns, output["preview"]) if output.get("preview") else None,
        "rows": execution.metrics.get("records_output"),
        "changes": _describe_changes(execution.metrics.get("changes")),
        "pages": sum(stage.pages for stage in progress.stages),
        "errors": sum(stage.errors for stage in progress.stages),
        "failed pages": build_failed_pages(progress),
        **_describe_model(progress.model),
        "seconds": payload.get("durationSeconds"),
        f"cost ({bill.currency})": sum(getattr(bill, name) for name in AMOUNTS if name.endswith("_cost")) / MILLION,
        "path": MetadataValue.path(payload["outputDatasetPath"]) if payload.get("outputDatasetPath") else None,
        "size (bytes)": payload.get("outputFileSizeBytes"),
        "CPU seconds": payload.get("totalCpuTimeSeconds"),
        "driver memory (bytes)": payload.get("driverMemoryUsedBytes"),
        "executor memory (bytes)": payload.get("executorMemoryUsedBytes"),
        "network (bytes)": (payload.get("metrics") or {}).get("networkBytes"),
        "engine": execution.metrics.get("additional", {}).get("engine"),
        "inputs": _build_inputs(execution),
        "given rows": given.rows if (given := execution.inputs.get(GIVEN_ROWS)) else None,
        "execution": execution.id,
        "agent": outline.agent_name,
        "agent revision": execution.agent_revision,
        "pipeline": build_pipeline(outline),
        "SQL": _build_statement(outline, table),
    }
    return {name: value for name, value in metadata.items() if value is not None}


def build_restored_metadata(outline: JobOutline, version: DatasetVersion) -> dict[str, Any]:
    """Return the metadata of the asset of a table that was restored to an earlier version."""
    metadata = {
        "dagster/row_count": version.row_count,
        **build_columns(outline, version.columns),
        "version": version.number,
        "restored from version": version.restored_from,
        "size (bytes)": version.size_bytes,
        "SQL": _build_statement(outline, outline.slug),
    }
    return {name: value for name, value in metadata.items() if value is not None}


def _build_statement(outline: JobOutline, table: str) -> MetadataValue:
    return MetadataValue.md(f"```sql\nSELECT * FROM {outline.project_slug}.{table}\n```")


def _describe_changes(changes: Mapping[str, int] | None) -> str | None:
    """Return the numbers of keys that changed in a history, for example `2 added, 1 changed, 0 retired`."""
    return ", ".join(f"{number:,} {name}" for name, number in changes.items()) if changes else None


def _describe_model(model: ModelProgress | None) -> dict[str, Any]:
    """Return calls, tokens and cost of the language model, and the pages that proven selectors have read."""
    if not model:
        return {}
    return {
        "pages by proven selectors": model.pages.get("selector", 0),
        "model calls": model.calls,
        "model tokens": model.tokens_in + model.tokens_out,
        "model cost (USD)": model.cost,
    }


def _build_inputs(execution: Execution) -> MetadataValue | None:
    """Return a table of the versions of datasets that the execution has read; None without any."""
    published = {key: read for key, read in execution.inputs.items() if read.is_published}
    if not published:
        return None
    schema = TableSchema([TableColumn("dataset"), TableColumn("version", "int")])
    records = [TableRecord({"dataset": get_input_name(key), "version": read.number}) for key, read in published.items()]
    return MetadataValue.table(records, schema)


def build_failed_pages(progress: Progress) -> MetadataValue | None:
    """Return a table of failed pages by status and reason, with their first addresses; None without failures."""
    counts = [each for each in progress.requests if each.reason]
    if not counts:
        return None
    names = ("status", "reason", "pages", "addresses")
    schema = TableSchema(
        [TableColumn(name, "int" if name in ("status", "pages") else "string") for name in names],
    )
    records = [
        TableRecord({**each.model_dump(include={*names}), "addresses": " ".join(each.addresses)})
        for each in counts[:_MAX_FAILURES]
    ]
    return MetadataValue.table(records, schema)


def _build_selectors(selectors: Sequence[SelectorProgress]) -> MetadataValue:
    """Return a table of the pages that selectors were applied to, those without a match, and values without fit."""
    schema = TableSchema(
        [TableColumn(name) for name in ("column", "selector")]
        + [TableColumn(name, "int") for name in ("pages", "empty", "unfit")]
    )
    names = {column.name for column in schema.columns}
    return MetadataValue.table([TableRecord(each.model_dump(include=names)) for each in selectors], schema)


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
