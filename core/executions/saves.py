"""Publishing what stages saved: for each path a dataset of its own, one version an execution."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.datasets.repository import Datasets
from core.executions.payload import CompletionPayload, SavedRows
from core.executions.places import output_name
from core.infra.storage.protocol import saves_key
from core.tables import Dataset, DatasetVersion, Execution, Project


def publish_saves(session: Session, execution: Execution, payload: CompletionPayload) -> None:
    """Makes what this attempt saved what its paths stand for; the caller has locked the organization."""
    project = session.get_one(Project, execution.project_id)
    for saved in payload.saves():
        name = output_name(session, project, saved.path)
        if name is not None:
            _publish(session, execution, project, name, saved)


def _publish(session: Session, execution: Execution, project: Project, name: str, saved: SavedRows) -> None:
    datasets = Datasets(session, execution.organization_id)
    found = datasets.at(name) if saved.mode == "append" else None
    earlier = found[1] if found and found[0].format == saved.format else None
    dataset = _dataset(session, datasets, project, name, saved.format)
    version = DatasetVersion(
        dataset_id=dataset.id,
        execution_id=execution.id,
        logical_path=name,
        paths=[*(earlier.paths if earlier else ()), _key(execution, saved)],
        columns=[column.model_dump() for column in saved.columns],
        row_count=_total(saved.rows, earlier.row_count if earlier else 0),
        size_bytes=_total(saved.bytes, earlier.size_bytes if earlier else 0),
    )
    session.add(version)
    session.flush()
    dataset.current_version_id = version.id


def _dataset(session: Session, datasets: Datasets, project: Project, name: str, format_: str) -> Dataset:
    """The dataset that is only written by saves to this path, in this format; made when there is none."""
    owned = (Dataset.organization_id == project.organization_id, Dataset.job_id.is_(None))
    same = select(Dataset).where(*owned, Dataset.logical_path == name, Dataset.format == format_)
    return session.scalar(same) or datasets.saved(project, name, format_)


def _key(execution: Execution, saved: SavedRows) -> str:
    return f"{saves_key(execution.organization_id, execution.id, execution.attempt)}/{saved.folder}"


def _total(added: int, earlier: int | None) -> int | None:
    return None if earlier is None else added + earlier
