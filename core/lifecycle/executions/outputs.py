"""The datasets that an execution writes: frozen as paths and modes, looked up again for every attempt."""

from __future__ import annotations

from hashlib import sha256

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.known_pages import find_dataset, find_known_pages
from core.data.datasets.repository import DatasetRepository
from core.definitions.jobs.partitions import read_partitions
from core.infra.storage.protocol import Storage, table_key
from core.lifecycle.executions.paths import is_local, resolve_output
from core.tables import DatasetVersion, Execution, Job, Project, now
from core.tables.datasets import StoredPartition
from core.tables.executions import FrozenOutput
from core.tables.states import State
from pipelines.contract.request import OUTPUT, Target
from pipelines.language.formats import TABLE_FORMATS, Mode
from pipelines.planning.lineage import trace_plan
from pipelines.planning.plan import Plan
from pipelines.planning.stage import Sink

OTHER_PARTITIONS = "The partitions of the job have changed since this execution was accepted."


def freeze_outputs(session: Session, execution: Execution, project: Project, plan: Plan) -> dict[str, FrozenOutput]:
    """Return the output and each save in the organization's storage; raise BadInput for paths outside the storage."""
    output, lineage = plan.output, trace_plan(plan)
    columns = {**lineage.saves, OUTPUT: lineage.output}
    written = [(OUTPUT, output.format, output.mode, resolve_output(session, project, output.path), output.keys)]
    for step in plan.steps:
        sink = step.stage
        if isinstance(sink, Sink) and not is_local(sink.path):
            path = resolve_output(session, project, sink.path, f"line {step.line}")
            written.append((sink.path, sink.format, sink.mode, path, sink.merge_keys))
    return {
        name: FrozenOutput(
            path, format_, mode.value, _choose_location(session, execution, format_, path), keys, columns[name]
        )
        for name, format_, mode, path, keys in written
    }


def _choose_location(session: Session, execution: Execution, format_: str, path: str | None) -> str | None:
    """Return the key of a table's folder: that of its dataset, or else one that job or path determine."""
    if format_ not in TABLE_FORMATS:
        return None
    current = find_current(session, execution, path)
    if current is not None and current.format == format_:
        return current.locations[0]
    identity = sha256((path or execution.job_id).encode()).hexdigest()[:32]
    return table_key(execution.organization_id, identity, format_)


def get_table_location(execution: Execution, name: str) -> str | None:
    """Return the key of the table that the execution's output, or a save, is written to; None for other formats."""
    written = execution.outputs.get(name)
    return written.location if written else None


def get_keys(execution: Execution, name: str) -> tuple[str, ...]:
    """Return the columns by which the rows of a version of the output, or of a save, differ; empty in most modes.

    A history has several rows of the same keys, one per state.
    """
    written = execution.outputs.get(name)
    if written is None:
        return ()
    return (*written.keys, "valid_from") if written.mode == Mode.HISTORY else written.keys


def load_targets(session: Session, storage: Storage, execution: Execution) -> dict[str, Target]:
    """Return the current versions of the datasets that an execution writes, by the path in its pipeline."""
    listed_at = int(now().timestamp() * 1000)  # before they are listed: a later commit is of a living writer
    writers = _list_other_writers(session, execution)
    targets: dict[str, Target] = {}
    for name, written in execution.outputs.items():
        version, location = find_current(session, execution, written.path), written.location
        continues = version is not None and version.format == written.format
        targets[name] = Target(
            location=storage.url_for(location, "spark") if location else None,
            exists=version is not None,
            format=version.format if version else None,
            snapshot=version.snapshot if version and continues else None,
            restored=version is not None and version.restored_from is not None,
            columns=tuple((each["name"], each["type"]) for each in version.columns) if version else (),
            partition_by=tuple(version.partition_by) if version else (),
            writers=tuple(writers) if location else (),
            listed_at=listed_at if location else None,
            version=version.id if version else None,
            rows=_count_replaced(execution, version) if version else None,
            paths=_list_merged(storage, written, version) if version and continues else (),
            known_pages=_locate_known_pages(session, storage, execution) if continues and name == OUTPUT else None,
            fits_types=name == OUTPUT and version is not None and bool(list_kept_partitions(execution, version)),
        )
    return targets


def has_other_partitions(session: Session, execution: Execution) -> bool:
    """Return whether its job has other partitions than an execution that publishes: its rows would replace them all."""
    job = session.get_one(Job, execution.job_id)
    return execution.publishes and read_partitions(job.partitions).scheme != (execution.partition_scheme or "")


def list_kept_partitions(execution: Execution, version: DatasetVersion | None) -> dict[str, StoredPartition]:
    """Return the partitions of a version that stay when the execution's replaces one of them.

    Those of another scheme are other parts of the rows, and go.
    """
    if execution.partition is None or version is None or version.partition_scheme != execution.partition_scheme:
        return {}
    return {key: part for key, part in version.partitions.items() if key != execution.partition}


def _count_replaced(execution: Execution, version: DatasetVersion) -> int | None:
    """Return the rows of a version that an execution replaces, if they are known: of its partition, or all."""
    if execution.partition is None or version.partition_scheme != execution.partition_scheme:
        return version.row_count
    part = version.partitions.get(execution.partition)
    return part.rows if part else None


def _list_merged(storage: Storage, written: FrozenOutput, version: DatasetVersion) -> tuple[str, ...]:
    """Return the folders of the files that rows are merged into, or written together with when types become wider."""
    if written.mode not in (Mode.APPEND, Mode.MERGE, Mode.HISTORY) or written.format != "parquet":
        return ()
    return tuple(storage.url_for(key, "spark") for key in version.locations)


def _locate_known_pages(session: Session, storage: Storage, execution: Execution) -> str | None:
    """Return the folder of the pages that the job knows; None without a dataset, and after a reset."""
    known = find_known_pages(session, execution.organization_id, execution.job_id)
    return storage.url_for(known, "spark") if known else None


def find_current(session: Session, execution: Execution, path: str | None) -> DatasetVersion | None:
    """Return the version that the execution replaces or adds to."""
    datasets = DatasetRepository(session, execution.organization_id)
    if path is not None:
        return datasets.find_at(path)
    dataset = find_dataset(session, execution.organization_id, execution.job_id)
    return datasets.find_version(dataset) if dataset else None


def _list_other_writers(session: Session, execution: Execution) -> list[str]:
    """Return the organization's other executions that may be writing at the moment."""
    others = select(Execution.id).where(
        Execution.organization_id == execution.organization_id,
        Execution.id != execution.id,
        Execution.state.in_([State.PENDING, State.RUNNING]),
    )
    return list(session.scalars(others))
