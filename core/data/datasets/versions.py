"""The history of a dataset: its versions, their retention, and the executions that wrote and read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from pydantic import ConfigDict
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from core.data.datasets.column_details import DescribedColumn, read_columns
from core.data.datasets.storage_limit import measure_again
from core.errors import Conflict, NotFound
from core.infra.records import RECORD
from core.infra.shared_values import SharedValuesWriter, delete_unused, replace_values, select_locked
from core.infra.validation import is_storable, parse_integer
from core.tables import Dataset, DatasetRead, DatasetVersion, Execution, FileRemoval, Job, Task
from core.tables.datasets import shorten_file
from core.tables.states import State
from pipelines.language.formats import TABLE_FORMATS

# columns that a dataset's versions have in common, with what is left in the rows of those before the current one
SHARED: Mapping[str, Any] = {
    **{name: [] for name in ("columns", "partition_by", "keys")},
    **{"format": "", "source_format": None, "partition_scheme": None},
}


@dataclass(frozen=True, slots=True)
class LineageLink:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    job_id: str | None
    """Id of the job; null for an upload."""
    job_name: str | None
    """Name of the job."""
    project_id: str | None
    """Id of the job's project."""
    execution_id: str | None
    """The job's newest execution that did so; null before one."""
    version: int | None
    """Number of the version that it wrote or read; null when it was removed."""
    at: datetime | None
    """When it did."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The jobs that write and read a dataset, and the columns of its current version."""

    written_by: Sequence[LineageLink]
    read_by: Sequence[LineageLink]
    columns: Sequence[DescribedColumn]


def list_versions(
    session: Session, dataset: Dataset, limit: int | None = None, before: int | None = None
) -> Sequence[DatasetVersion]:
    """Return the versions, newest first."""
    query = select(DatasetVersion).where(DatasetVersion.dataset_id == dataset.id)
    if before is not None:
        query = query.where(DatasetVersion.number < before)
    return session.scalars(query.order_by(DatasetVersion.number.desc()).limit(limit)).all()


def get_version(session: Session, dataset: Dataset, version: str | None) -> DatasetVersion:
    """Return a version by its number or id, by default the current one. Raises NotFound."""
    query = select(DatasetVersion).where(DatasetVersion.dataset_id == dataset.id)
    if version is None:
        query = query.where(DatasetVersion.id == (dataset.current_version_id or ""))
    elif (number := parse_integer(version)) is not None:
        query = query.where(DatasetVersion.number == number)
    else:
        query = query.where(DatasetVersion.id == version if is_storable(version) else DatasetVersion.id.is_(None))
    found = session.scalar(query.order_by(DatasetVersion.id.desc()).limit(1))
    if found is None:
        raise NotFound(
            "This dataset was never published." if version is None else "This dataset has no such version.",
            code="unknown-version",
            path="version",
        )
    return found


def find_task_output(session: Session, organization_id: str, task_id: str) -> tuple[str, str]:
    """Return the ids of the dataset that a task's execution published, and of the execution. Raises NotFound."""
    query = (
        select(Task.id, Execution)
        .outerjoin(Execution, Execution.id == Task.execution_id)
        .where(Task.id == parse_integer(task_id), Task.organization_id == organization_id)
    )
    found = session.execute(query).one_or_none()
    if found is None:
        raise NotFound("There is no task with this id.")
    execution = found[1]
    if execution is None or execution.dataset_id is None:
        raise NotFound("This task has published no dataset.")
    return execution.dataset_id, execution.id


def find_outcome(session: Session, dataset_id: str | None, execution_id: str) -> DatasetVersion | None:
    """Return the version of a dataset that an execution has published, or else the current one."""
    dataset = session.get(Dataset, dataset_id) if dataset_id else None
    if dataset is None:
        return None
    query = select(DatasetVersion).where(DatasetVersion.dataset_id == dataset.id)
    published = session.scalar(query.where(DatasetVersion.execution_id == execution_id))
    return published or session.get(DatasetVersion, dataset.current_version_id or "")


def load_lineage(session: Session, dataset: Dataset) -> Lineage:
    """Return the jobs of both directions, each with its newest execution; jobs whose input it is read it too."""
    written = select(func.max(DatasetVersion.number)).where(
        DatasetVersion.dataset_id == dataset.id, DatasetVersion.execution_id == Execution.id
    )
    writers = _link_jobs(
        session,
        select(Execution, written.scalar_subquery()).where(
            Execution.id.in_(select(DatasetVersion.execution_id).where(DatasetVersion.dataset_id == dataset.id))
        ),
    )
    uploads = [
        LineageLink(None, None, None, None, version.number, version.created_at)
        for version in session.scalars(
            select(DatasetVersion)
            .where(DatasetVersion.dataset_id == dataset.id, DatasetVersion.execution_id.is_(None))
            .where(DatasetVersion.restored_from.is_(None))
            .order_by(DatasetVersion.number.desc())
            .limit(1)
        )
    ]
    number = select(DatasetVersion.number).where(DatasetVersion.id == DatasetRead.version_id)
    readers = _link_jobs(
        session,
        select(Execution, number.scalar_subquery())
        .join(DatasetRead, DatasetRead.execution_id == Execution.id)
        .where(DatasetRead.dataset_id == dataset.id),
    )
    known = {link.job_id for link in readers}
    jobs = session.scalars(
        select(Job).where(Job.organization_id == dataset.organization_id, Job.input_dataset_id == dataset.id)
    )
    idle = [LineageLink(job.id, job.name, job.project_id, None, None, None) for job in jobs if job.id not in known]
    columns = read_columns(session.get(DatasetVersion, dataset.current_version_id or ""))
    return Lineage([*uploads, *writers], [*readers, *idle], columns)


def _link_jobs(session: Session, query: Any) -> list[LineageLink]:
    newest: dict[str, LineageLink] = {}
    for execution, number in sorted(session.execute(query), key=lambda row: (row[0].id, row[1] or 0), reverse=True):
        at = execution.completed_at or execution.created_at
        link = LineageLink(execution.job_id, execution.job_name, execution.project_id, execution.id, number, at)
        newest.setdefault(execution.job_id, link)
    return list(newest.values())


def list_with_surplus(session: Session, now: datetime) -> Sequence[Dataset]:
    """Return the datasets that have versions beyond their retention, of all organizations."""
    count, oldest = func.count(DatasetVersion.id), func.min(DatasetVersion.created_at)
    query = (
        select(Dataset, count, oldest)
        .join(DatasetVersion, DatasetVersion.dataset_id == Dataset.id)
        .where(Dataset.retained_versions.is_not(None) | Dataset.retained_days.is_not(None))
        .where(DatasetVersion.id != Dataset.current_version_id)
        .group_by(Dataset.id)
    )
    return [
        dataset
        for dataset, earlier, created_at in session.execute(query)
        if (dataset.retained_versions is not None and earlier >= dataset.retained_versions)
        or (dataset.retained_days is not None and created_at < now - timedelta(days=dataset.retained_days))
    ]


def apply_retention(session: Session, dataset: Dataset, now: datetime, due_at: datetime) -> int:
    """Remove the versions that the dataset's retention does not keep; return their number.

    The current version stays. The caller has locked the organization.
    """
    kept, days = dataset.retained_versions, dataset.retained_days
    surplus = [
        version
        for position, version in enumerate(list_versions(session, dataset))
        if version.id != dataset.current_version_id
        and (
            (kept is not None and position >= kept)
            or (days is not None and version.created_at < now - timedelta(days=days))
        )
    ]
    remove_versions(session, dataset.organization_id, surplus, due_at)
    return len(surplus)


def share_values(session: Session, before: datetime, limit: int | None) -> int:
    """Store once what versions before the current one have in common with others of their dataset; return how many.

    Those that were published after a time stay as they are; without a limit, they are only counted.
    """
    columns = (DatasetVersion.id, DatasetVersion.dataset_id, DatasetVersion.locations, DatasetVersion.files)
    query = select(Dataset.organization_id, *columns, *(getattr(DatasetVersion, name) for name in SHARED))
    query = query.join(Dataset, Dataset.id == DatasetVersion.dataset_id)
    query = query.where(DatasetVersion.shared_id.is_(None), DatasetVersion.created_at < before)
    query = query.where(DatasetVersion.id != func.coalesce(Dataset.current_version_id, ""))
    if limit is None:
        return session.scalar(select(func.count()).select_from(query.subquery())) or 0
    found = select_locked(session, query.order_by(DatasetVersion.created_at).limit(limit))
    writer = SharedValuesWriter(session)
    rows = [
        {
            **SHARED,
            "id": row["id"],
            "files": row["files"] and [shorten_file(each, row["locations"]) for each in row["files"]],
            "shared_id": writer.store(
                {name: row[name] for name in SHARED},
                organization_id=row["organization_id"],
                dataset_id=row["dataset_id"],
            ),
        }
        for row in found
    ]
    replace_values(session, DatasetVersion, rows)
    return len(found)


def remove_versions(
    session: Session, organization_id: str, versions: Sequence[DatasetVersion], due_at: datetime | None
) -> None:
    """Delete versions. The collector deletes their files from the given time on unless other versions name them."""
    if versions:
        ids = [version.id for version in versions]
        session.execute(delete(DatasetVersion).where(DatasetVersion.id.in_(ids)))
        delete_unused(session, {version.dataset_id for version in versions})
        measure_again(session, {version.dataset_id for version in versions})
    folders = (each for version in versions for each in (*version.locations, version.known_pages))
    schedule_removals(session, organization_id, filter(None, folders), due_at)


def schedule_removals(
    session: Session, organization_id: str, locations: Iterable[str], due_at: datetime | None
) -> None:
    """Store when the files of these folders are to be deleted, or with None never; what is stored already stays."""
    wanted = sorted(set(locations))
    query = select(FileRemoval.location).where(FileRemoval.organization_id == organization_id)
    known = set(session.scalars(query.where(FileRemoval.location.in_(wanted))))
    for location in wanted:
        if location not in known:
            session.add(FileRemoval(organization_id=organization_id, location=location, due_at=due_at))
    session.flush()


def load_named_locations(session: Session, organization_id: str) -> set[str]:
    """Return the folders that the organization's versions name, and those of known pages."""
    query = select(DatasetVersion.locations, DatasetVersion.known_pages)
    query = query.join(Dataset, Dataset.id == DatasetVersion.dataset_id)
    owned = session.execute(query.where(Dataset.organization_id == organization_id))
    return {each for locations, known in owned for each in (*locations, known) if each is not None}


def load_read_locations(session: Session, organization_id: str) -> set[str]:
    """Return the folders that the organization's unfinished executions read, and the tables that they write."""
    unfinished = list_unfinished(session, organization_id)
    read = {each for execution in unfinished for read in execution.inputs.values() for each in read.locations}
    tables = {written.location for execution in unfinished for written in execution.outputs.values()}
    return read | {location for location in tables if location is not None}


def check_not_written(session: Session, dataset: Dataset, version: DatasetVersion) -> None:
    """Raise Conflict while an execution that writes the dataset, or the version's table, has not ended."""
    tables = version.locations if version.format in TABLE_FORMATS else []
    for execution in list_unfinished(session, dataset.organization_id):
        own = dataset.job_id is not None and execution.job_id == dataset.job_id
        if own or any(
            (each.path is not None and each.path == dataset.logical_path) or each.location in tables
            for each in execution.outputs.values()
        ):
            sentence = f"The execution {execution.id} of the job '{execution.job_name}' writes this dataset"
            raise Conflict(f"{sentence} and has not ended. Wait for its end, or cancel it.", code="dataset-written")


def list_unfinished(session: Session, organization_id: str) -> Sequence[Execution]:
    """Return the organization's executions that have not ended."""
    query = select(Execution).where(
        Execution.organization_id == organization_id,
        Execution.state.in_([state for state in State if not state.terminal]),
    )
    return session.scalars(query).all()
