"""Paths that a pipeline reads and writes, resolved inside the organization's storage."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.repository import MAX_PATH_CHARACTERS, SCHEME, DatasetRepository, get_address
from core.errors import BadInput, Detail
from core.tables import Dataset, DatasetRead, DatasetVersion, Execution, Project
from core.tables.executions import FrozenInput
from pipelines.filesystem import split_address
from pipelines.language.names import suggest
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import Sink


def resolve_output(session: Session, project: Project, path: str | None, field: str = "output.path") -> str | None:
    """Return the spindle:// path that rows are written to; a bare path is relative to the project's storage.

    Raises BadInput for a path outside the organization's storage.
    """
    if path is None or split_address(path):  # a bucket of the user is written to by the driver
        return None
    name = path if "://" in path else f"{SCHEME}{project.slug}/{path}"
    parts = name.removeprefix(SCHEME).rstrip("/").split("/")
    is_local = not name.startswith(SCHEME) or path.startswith(("/", "~"))
    if is_local or len(name) > MAX_PATH_CHARACTERS or len(parts) < 2:
        raise _make_outside(project, path, field)
    if any(part.strip() in ("", ".", "..") for part in parts):
        raise _make_outside(project, path, field)
    owned = select(Project.id).where(Project.organization_id == project.organization_id, Project.slug == parts[0])
    if session.scalar(owned) is None:
        raise _make_outside(project, path, field)
    return SCHEME + "/".join(parts)


def resolve_inputs(session: Session, project: Project, plan: Plan) -> dict[str, FrozenInput]:
    """Return the current version of each dataset that the plan reads, by its path in the pipeline.

    A path that an earlier stage of the plan saves to may be without a dataset. Raises BadInput for any other path
    without one, and for a save outside the organization's storage.
    """
    datasets = DatasetRepository(session, project.organization_id)
    inputs: dict[str, FrozenInput] = {}
    saved: set[str] = set()
    for step in plan.steps:
        if isinstance(step.stage, Sink) and not is_local(step.stage.path):
            saved.add(step.stage.path)
            resolve_output(session, project, step.stage.path, f"line {step.line}")
        for path in _list_reads(step):
            version = datasets.find_at((path if "://" in path else f"{SCHEME}{project.slug}/{path}").rstrip("/"))
            if version is not None:
                inputs[path] = _freeze(version)
            elif path not in saved:
                message = f"There is no dataset at '{path}' yet. {_suggest_paths(datasets, path)}"
                raise BadInput(message, [Detail(f"line {step.line}", message, "unknown-dataset")])
    return inputs


def _suggest_paths(datasets: DatasetRepository, path: str) -> str:
    """Return a sentence with the paths of datasets that resemble one without a dataset."""
    similar = suggest(path, [address for each in datasets.list(limit=1000) if (address := get_address(each.dataset))])
    return f"Did you mean {' or '.join(similar)}?" if similar else f"Datasets are at {SCHEME}PROJECT/TABLE."


def _freeze(version: DatasetVersion) -> FrozenInput:
    columns = ((each["name"], each["type"]) for each in version.columns)
    return FrozenInput(
        dataset=version.dataset_id,
        version=version.id,
        format=version.format,
        locations=tuple(version.locations),
        snapshot=version.snapshot,
        columns=tuple(columns) if version.partition_by else (),
        partition_by=tuple(version.partition_by),
    )


def record_reads(session: Session, execution: Execution) -> None:
    """Store which datasets a new execution reads, for their lineage; a dataset deleted meanwhile has none."""
    versions = {read.dataset: read.version for read in execution.inputs.values()}
    for dataset_id in session.scalars(select(Dataset.id).where(Dataset.id.in_(versions))) if versions else ():
        session.add(DatasetRead(execution_id=execution.id, dataset_id=dataset_id, version_id=versions[dataset_id]))


def _list_reads(step: Step) -> Iterator[str]:
    """Yield the paths in the organization's storage that a step loads or appends to."""
    paths = step.stage.list_inputs() if step.stage else ()
    yield from (path for path in paths if not is_local(path))


def is_local(path: str) -> bool:
    """Return whether the path is left to the driver: a folder of the machine, or another storage."""
    return ("://" in path and not path.startswith(SCHEME)) or path.startswith(("/", "~"))


def _make_outside(project: Project, path: str, field: str) -> BadInput:
    message = (
        f"The path '{path[:200]}' lies outside of the organization's storage. "
        f"Write to spindle://{project.slug}/<name>, or leave the path out."
    )
    return BadInput(message, [Detail(field, message, "path-outside-storage")])
