"""Where a pipeline's output block and loads point to, inside the organization's storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.datasets.repository import SCHEME, DatasetRepository
from core.errors import BadInput, Detail
from core.tables import Project
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import Sink

LONGEST_PATH = 1000


def output_name(session: Session, project: Project, path: str | None, place: str = "output.path") -> str | None:
    """The spindle:// path that rows are written to; a bare one lies in the project's storage. BadInput for others."""
    if path is None:
        return None
    name = path if "://" in path else f"{SCHEME}{project.slug}/{path}"
    parts = name.removeprefix(SCHEME).rstrip("/").split("/")
    if not name.startswith(SCHEME) or path.startswith(("/", "~")) or len(name) > LONGEST_PATH:
        raise _outside(project, path, place)
    if len(parts) < 2 or any(part.strip() in ("", ".", "..") for part in parts):
        raise _outside(project, path, place)
    owned = select(Project.id).where(Project.organization_id == project.organization_id, Project.slug == parts[0])
    if session.scalar(owned) is None:
        raise _outside(project, path, place)
    return SCHEME + "/".join(parts)


def inputs(session: Session, project: Project, plan: Plan) -> dict[str, Any]:
    """The storage keys behind each path that the plan reads from the organization's storage, as they are now.

    What an earlier stage of the plan saves need not be there yet. Raises BadInput for any other place without a
    dataset, and for a save that points out of the organization's storage.
    """
    datasets, found = DatasetRepository(session, project.organization_id), dict[str, Any]()
    saved: set[str] = set()
    for step in plan.steps:
        if isinstance(step.stage, Sink) and not _is_local(step.stage.path):
            saved.add(step.stage.path)
            output_name(session, project, step.stage.path, f"line {step.line}")
        for path in _read(step):
            version = datasets.find_at((path if "://" in path else f"{SCHEME}{project.slug}/{path}").rstrip("/"))
            if version is not None:
                found[path] = {
                    "format": version.format,
                    "locations": version.locations,
                    "snapshot": version.snapshot,
                }
            elif path not in saved:
                message = f"There is no dataset at '{path}' yet."
                raise BadInput(message, [Detail(f"line {step.line}", message)])
    return found


def _read(step: Step) -> Iterator[str]:
    """Paths in the organization's storage that a step loads, or appends to."""
    stage = step.stage
    paths = stage.list_inputs() if stage else ()
    yield from (path for path in paths if path.startswith(SCHEME) or not _is_local(path))


def _is_local(path: str) -> bool:
    """Whether a path is one of the machine's folders, or of another storage: what the driver looks after."""
    return ("://" in path and not path.startswith(SCHEME)) or path.startswith(("/", "~"))


def _outside(project: Project, path: str, place: str) -> BadInput:
    message = (
        f"The path '{path[:200]}' lies outside of the organization's storage. "
        f"Write to spindle://{project.slug}/<name>, or leave the path out."
    )
    return BadInput(message, [Detail(place, message)])
