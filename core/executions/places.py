"""Where a pipeline's output block and loads point to, inside the organization's storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.datasets import SCHEME, Datasets
from core.errors import BadInput, Detail
from core.tables import Project
from pipelines import Kind, Plan, Step

LONGEST_PATH = 1000


def output_name(session: Session, project: Project, path: str | None) -> str | None:
    """The spindle:// path of an output block; a bare path lies in the project's storage. BadInput for other places."""
    if path is None:
        return None
    name = path if "://" in path else f"{SCHEME}{project.slug}/{path}"
    parts = name.removeprefix(SCHEME).rstrip("/").split("/")
    if not name.startswith(SCHEME) or path.startswith(("/", "~")) or len(name) > LONGEST_PATH:
        raise _outside(project, path)
    if len(parts) < 2 or any(part.strip() in ("", ".", "..") for part in parts):
        raise _outside(project, path)
    owned = select(Project.id).where(Project.organization_id == project.organization_id, Project.slug == parts[0])
    if session.scalar(owned) is None:
        raise _outside(project, path)
    return SCHEME + "/".join(parts)


def inputs(session: Session, organization_id: str, plan: Plan) -> dict[str, Any]:
    """The storage keys behind each spindle:// path that the plan loads, as they are now; BadInput for an empty one."""
    datasets, found = Datasets(session, organization_id), dict[str, Any]()
    for step, path in _loaded(plan):
        at = datasets.at(path.rstrip("/"))
        if at is None:
            message = f"There is no dataset at '{path}' yet."
            raise BadInput(message, [Detail(f"line {step.line}", message)])
        dataset, version = at
        found[path] = {"paths": version.paths, "format": dataset.format}
    return found


def _loaded(plan: Plan) -> Iterator[tuple[Step, str]]:
    for step in plan.steps:
        if step.kind is Kind.SOURCE and step.stage is not None:
            yield from ((step, text) for text in _texts(step.stage.model_dump()) if text.startswith(SCHEME))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast(dict[str, object], value).values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in cast(list[object], value):
            yield from _texts(item)


def _outside(project: Project, path: str) -> BadInput:
    message = (
        f"The output path '{path[:200]}' lies outside of the organization's storage. "
        f"Write to spindle://{project.slug}/<name>, or leave the path out."
    )
    return BadInput(message, [Detail("output.path", message)])
