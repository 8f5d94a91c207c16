"""Publishing of an execution's output and saves as new versions of datasets.

The caller has locked the organization, so two appends never start from the same version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from core.data.datasets.column_details import add_details
from core.data.datasets.known_pages import find_dataset, find_known_pages, replace_known_pages
from core.data.datasets.repository import DatasetRepository, NewVersion, ReplacedPartition
from core.data.files.process import FileReader
from core.definitions.jobs.partitions import SEPARATOR
from core.errors import BadInput
from core.infra.storage.protocol import (
    InvalidKey,
    Storage,
    StoredFile,
    find_data_files,
    known_pages_key,
    output_key,
    saves_key,
)
from core.lifecycle.executions.outputs import (
    OTHER_PARTITIONS,
    find_current,
    get_keys,
    get_table_location,
    has_other_partitions,
    list_kept_partitions,
)
from core.lifecycle.executions.paths import get_rejected_path, resolve_output
from core.lifecycle.executions.payload import CompletionPayload
from core.tables import Dataset, DatasetVersion, Execution, Job, Project
from core.tables.datasets import StoredPartition
from pipelines.contract.report import ColumnTypes, Layout, TableVersion, describe_columns
from pipelines.contract.request import OUTPUT, REJECTED_FOLDER
from pipelines.language.formats import TABLE_FORMATS, Mode
from pipelines.tables.snapshots import get_position

OWN_FOLDERS = frozenset({"executions", "datasets", "known", "tables", "packages", "pages"})
_RUN_AGAIN = "Nothing was published; run the job again."
FOREIGN_FORMATS = frozenset({"parquet", "csv", "json"})
EXTENDING_MODES = frozenset({Mode.APPEND, Mode.MERGE, Mode.HISTORY})


AttemptFiles = Mapping[str, Sequence[StoredFile]]
"""The data files that an attempt has written, by folder: they are listed once, before the publishing transaction."""


def list_attempt_files(storage: Storage, execution: Execution, payload: CompletionPayload) -> AttemptFiles:
    """Return the data files of the attempt's output folder and of the folders of its saves; those of tables are not."""
    attempt = (execution.organization_id, execution.id, execution.attempt)
    saves = {f"{saves_key(*attempt)}/{saved.folder}" for saved in payload.report.saves if saved.folder}
    if payload.report.rejected:
        saves.add(f"{saves_key(*attempt)}/{REJECTED_FOLDER}")
    return {folder: find_data_files(storage, folder) for folder in (output_key(*attempt), *sorted(saves))}


def is_output_of_attempt(
    storage: Storage, execution: Execution, payload: CompletionPayload, files: AttemptFiles
) -> bool:
    """Return whether the report's path is the attempt's own output folder or the execution's table.

    A folder without files is the output of an execution that wrote no rows, as Spark leaves it with partitions.
    """
    key, table = find_output_key(execution), get_table_location(execution, OUTPUT)
    path = (payload.output_dataset_path or "").rstrip("/")
    return path == storage.url_for(key, "spark").rstrip("/") and bool(
        table or files.get(key) or payload.records_output == 0
    )


def find_output_key(execution: Execution) -> str:
    """Return the key of the folder that the current attempt writes its output to."""
    table = get_table_location(execution, OUTPUT)
    return table or output_key(execution.organization_id, execution.id, execution.attempt)


def describe_foreign_output(
    storage: Storage, reader: FileReader, organization_id: str, payload: CompletionPayload
) -> NewVersion | None:
    """Return the output that another Spark wrote to a folder of the organization's storage; columns and counts are
    read from its files.

    None for a folder elsewhere, without files, or where the service keeps its own. Raises BadInput for files that are
    not of the format.
    """
    key = storage.find_key((payload.output_dataset_path or "").rstrip("/"))
    format_ = (payload.output_dataset_format or "parquet").lower()
    parts = key.split("/") if key else []
    if len(parts) < 2 or parts[0] != organization_id or parts[1] in OWN_FOLDERS or format_ not in FOREIGN_FORMATS:
        return None
    try:
        files = find_data_files(storage, "/".join(parts))
    except InvalidKey:
        return None
    if not files:
        return None
    columns, rows = reader.describe([storage.url_for(file.key, "signed") for file in files], format_)
    size = sum(file.size_bytes for file in files)
    return NewVersion("/".join(parts), format_, columns, rows, size, [file.key for file in files])


def find_conflict(
    session: Session, execution: Execution, payload: CompletionPayload, publishes_output: bool
) -> str | None:
    """Return why an attempt's result must not be published: another execution has published, or its job has changed."""
    merged, pages = payload.report.merged, payload.report.known_pages
    if execution.partition is not None and not publishes_output and payload.output_dataset_path:
        return f"A partition is published from the output folder of its attempt alone. {_RUN_AGAIN}"
    if payload.output_dataset_path and has_other_partitions(session, execution):
        return f"{OTHER_PARTITIONS} {_RUN_AGAIN}"
    if merged is not None:
        written = execution.outputs.get(OUTPUT)
        current = find_current(session, execution, written.path if written else None)
        if merged.version != (current.id if current else None):
            return f"The dataset has a newer version than the one that the rows were merged into. {_RUN_AGAIN}"
    for saved in payload.report.saves:
        written = execution.outputs.get(saved.path)
        current = find_current(session, execution, written.path) if saved.merged and written else None
        if saved.merged and saved.merged.version != (current.id if current else None):
            return f"The dataset at '{saved.path}' has a newer version than the rows in its new files. {_RUN_AGAIN}"
    if changed := _find_changed_column(session, execution, payload, publishes_output):
        return f"The column {changed} since the rows were written. {_RUN_AGAIN}"
    if pages is not None:
        known = find_known_pages(session, execution.organization_id, execution.job_id)
        if pages.earlier is not None and pages.earlier != (known or "").rpartition("/")[2]:
            return f"The known pages of the job were changed by another execution or a reset. {_RUN_AGAIN}"
        if pages.earlier is None and known is not None and _is_continued(session, execution):
            return f"The known pages of the job were changed by another execution. {_RUN_AGAIN}"
    return None


def _find_changed_column(
    session: Session, execution: Execution, payload: CompletionPayload, publishes_output: bool
) -> str | None:
    """Return the first column of appended files that has another type in the version they would be added to.

    Rows are written with the types of the version that was current at the launch; a later one may have wider types, and
    not all readers of a dataset read files in which a column has several. A partition is added to the others.
    """
    written: list[tuple[str, str, Layout, ColumnTypes]] = []
    if publishes_output:
        written.append((OUTPUT, execution.output_mode, payload.report.output or Layout(), payload.parse_columns()))
    for saved in payload.report.saves:
        written.append((saved.path, saved.mode, saved, saved.columns))
    for name, mode, layout, columns in written:
        target = execution.outputs.get(name)
        fits = mode == "append" or (name == OUTPUT and execution.partition is not None)
        if target is None or target.format != "parquet" or not fits or layout.total_rows is not None:
            continue
        current = find_current(session, execution, target.path)
        if mode != "append" and not list_kept_partitions(execution, current):
            continue
        if current is None or current.format != target.format:
            continue
        types = {column["name"].casefold(): column["type"] for column in current.columns}
        for column, type_ in columns:
            existing = types.get(column.casefold(), type_)
            if existing != type_:
                return f"'{column}' has become {existing} in the dataset, from {type_},"
    return None


def _is_continued(session: Session, execution: Execution) -> bool:
    """Return whether the output's dataset has rows that the execution's are added to."""
    written = execution.outputs.get(OUTPUT)
    current = find_current(session, execution, written.path if written else None)
    return current is not None and written is not None and current.format == written.format


def publish_known_pages(session: Session, execution: Execution, payload: CompletionPayload) -> None:
    """Let the job know the pages of an incremental attempt; rows that replace all earlier ones make it forget them."""
    dataset, pages = find_dataset(session, execution.organization_id, execution.job_id), payload.report.known_pages
    if dataset is None:
        return
    if pages is not None and pages.written:
        attempt = (execution.organization_id, execution.job_id, execution.id, execution.attempt)
        replace_known_pages(session, dataset, known_pages_key(*attempt), execution.id)
    elif pages is None and execution.output_mode not in ("append", "merge", "history", "ignore"):
        replace_known_pages(session, dataset, None, execution.id)


def name_current(session: Session, execution: Execution) -> None:
    """Let the record of an execution that found no difference name the dataset, whose version stays current."""
    written = execution.outputs.get(OUTPUT)
    if current := find_current(session, execution, written.path if written else None):
        execution.dataset_id = current.dataset_id


def publish_output(
    session: Session,
    execution: Execution,
    payload: CompletionPayload,
    written: AttemptFiles,
    foreign: NewVersion | None = None,
) -> Dataset:
    """Publish the attempt's output folder, or another one that was described, to the job's dataset."""
    key, layout = find_output_key(execution), payload.report.output or Layout()
    datasets = DatasetRepository(session, execution.organization_id)
    job, project = session.get_one(Job, execution.job_id), session.get_one(Project, execution.project_id)
    dataset = datasets.ensure_of_job(job, project)
    files = foreign or _describe_files(
        execution=execution,
        name=OUTPUT,
        location=key,
        keys=get_keys(execution, OUTPUT),
        format=(payload.output_dataset_format or "parquet").lower(),
        columns=payload.parse_columns(),
        row_count=payload.records_output if layout.total_rows is None else layout.total_rows,
        size_bytes=payload.output_file_size_bytes,
        files=[file.key for file in written.get(key, ())],
        layout=layout,
        mode=execution.output_mode,
    )
    appends = execution.output_mode == "append" and layout.total_rows is None
    earlier = _find_appended(datasets, execution, dataset) if appends else None
    replaced = _find_replaced(execution, datasets.find_version(dataset), files, layout.table)
    path = execution.output_name
    datasets.publish(dataset, execution.id, files, path=path, append_to=earlier, partition=replaced)
    dataset.logical_path = execution.output_name
    job.output_dataset_id = execution.dataset_id = dataset.id
    return dataset


def keep_trial(session: Session, execution: Execution, payload: CompletionPayload, written: AttemptFiles) -> None:
    """Keep the rows of an execution that does not publish, as a dataset of its own: `<job>@<execution>`."""
    datasets = DatasetRepository(session, execution.organization_id)
    job, project = session.get_one(Job, execution.job_id), session.get_one(Project, execution.project_id)
    key = find_output_key(execution)
    files = _describe_files(
        execution=execution,
        name=OUTPUT,
        location=key,
        keys=(),
        format="parquet",
        columns=payload.parse_columns(),
        row_count=payload.records_output,
        size_bytes=payload.output_file_size_bytes,
        files=[file.key for file in written.get(key, ())],
        layout=payload.report.output or Layout(),
    )
    dataset = datasets.create_trial(job, project, execution.id)
    datasets.publish(dataset, execution.id, files, path=None)
    execution.dataset_id = dataset.id


def publish_saves(session: Session, execution: Execution, payload: CompletionPayload, written: AttemptFiles) -> None:
    """Publish the rows of the attempt's save stages: one dataset for every path."""
    datasets = DatasetRepository(session, execution.organization_id)
    project = session.get_one(Project, execution.project_id)
    folder = saves_key(execution.organization_id, execution.id, execution.attempt)
    for saved in payload.report.saves:
        path = resolve_output(session, project, saved.path)
        found = written.get(f"{folder}/{saved.folder}", ())
        location = get_table_location(execution, saved.path) if saved.table else f"{folder}/{saved.folder}"
        if path is None or location is None or not (saved.table or found or (saved.columns and saved.rows == 0)):
            continue
        files = _describe_files(
            execution=execution,
            name=saved.path,
            location=location,
            keys=get_keys(execution, saved.path),
            format=saved.format,
            columns=saved.columns,
            row_count=saved.rows if saved.total_rows is None else saved.total_rows,
            size_bytes=saved.bytes,
            files=[file.key for file in found],
            layout=saved,
            mode=saved.mode,
        )
        earlier = datasets.find_at(path) if saved.mode == "append" and saved.total_rows is None else None
        dataset = datasets.ensure_of_path(project, path, saved.format)
        datasets.publish(dataset, execution.id, files, path=path, append_to=earlier)


def publish_rejected(session: Session, execution: Execution, payload: CompletionPayload, written: AttemptFiles) -> None:
    """Publish the rows that checks have set aside as the next version of the dataset `<job>_rejected`."""
    rejected = payload.report.rejected
    if rejected is None:
        return
    datasets = DatasetRepository(session, execution.organization_id)
    project, job = session.get_one(Project, execution.project_id), session.get_one(Job, execution.job_id)
    folder = f"{saves_key(execution.organization_id, execution.id, execution.attempt)}/{REJECTED_FOLDER}"
    columns = _describe_columns(execution, OUTPUT, rejected.columns)
    keys = [file.key for file in written.get(folder, ())]
    files = NewVersion(folder, "parquet", columns, rejected.rows, rejected.bytes, keys)
    path = get_rejected_path(project, job)
    datasets.publish(datasets.ensure_of_path(project, path, "parquet"), execution.id, files, path=path)


def _describe_files(
    *,
    execution: Execution,
    name: str,
    location: str,
    keys: Sequence[str],
    format: str,
    columns: ColumnTypes,
    row_count: int | None,
    size_bytes: int | None,
    files: list[str],
    layout: Layout,
    mode: str = Mode.OVERWRITE,
) -> NewVersion:
    """Return the description of files, or of a table's version; raise BadInput for a snapshot that is none."""
    table, partitions, described = layout.table, layout.partition_by, _describe_columns(execution, name, columns)
    extended = mode in EXTENDING_MODES
    if format not in TABLE_FORMATS:
        return NewVersion(location, format, described, row_count, size_bytes, files, None, partitions, keys)
    try:
        get_position(format, table.snapshot if table else "")
    except ValueError:
        sentence = f"The report names no snapshot of the {format} table that it has written."
        raise BadInput(sentence, code="invalid-snapshot", path="additionalMetrics.output.table") from None
    assert table is not None  # noqa: S101 - an empty snapshot has no position
    return NewVersion(
        location, format, described, table.rows, table.bytes, None, table.snapshot, partitions, keys, extended=extended
    )


def _describe_columns(execution: Execution, name: str, columns: ColumnTypes) -> list[dict[str, Any]]:
    """Return the columns of an output or save, with descriptions and sources from its plan."""
    written = execution.outputs.get(name)
    datasets = {key: read.dataset for key, read in execution.inputs.items() if read.dataset}
    return add_details(describe_columns(columns), written.columns if written else (), datasets)


def _find_replaced(
    execution: Execution, current: DatasetVersion | None, files: NewVersion, table: TableVersion | None
) -> ReplacedPartition | None:
    """Return the partition that the execution's files or its version of a table replace.

    Partitions without rows are not in a table's log, nor is who wrote the others.
    """
    key = execution.partition
    if key is None or execution.partition_scheme is None:
        return None
    kept = list_kept_partitions(execution, current)
    if table is None:
        return ReplacedPartition(key, execution.partition_scheme, kept)
    own = StoredPartition(execution.id, files.location, 0, 0)
    parts = {key: own, **{each: part for each, part in kept.items() if part.rows == 0}}
    for part in table.parts:
        name = SEPARATOR.join(part.values)
        before = own if name == key else kept.get(name, replace(own, execution_id=""))
        parts[name] = replace(before, rows=part.rows, bytes=part.bytes)
    return ReplacedPartition(key, execution.partition_scheme, kept, parts)


def _find_appended(datasets: DatasetRepository, execution: Execution, dataset: Dataset) -> DatasetVersion | None:
    """Return the version that an append adds to: the newest at its output path, or the job's own."""
    if execution.output_name is None:
        return datasets.find_version(dataset)
    return datasets.find_at(execution.output_name)
