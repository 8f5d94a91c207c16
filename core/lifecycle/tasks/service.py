"""Operations on the tasks of the caller's organization; others are unknown to it (NotFound)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.repository import JobRepository, JobWithTasks
from core.infra.encryption import KeyRing
from core.infra.preconditions import Versioned, compute_etag
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.lifecycle.tasks.models import TaskCreate, TaskUpdate
from core.lifecycle.tasks.report import TaskWithExecution
from core.lifecycle.tasks.repository import TaskRepository


def list_tasks(
    session: Session,
    caller: Identity,
    project_id: str,
    job_id: str,
    *,
    limit: int | None = None,
    after: int | None = None,
) -> Sequence[TaskWithExecution]:
    tasks = TaskRepository(session, caller.organization_id)
    return tasks.list(project_id, job_id, limit=limit, after=after)


def get(session: Session, caller: Identity, project_id: str, job_id: str, task_id: str) -> Versioned[TaskWithExecution]:
    return _add_etag(TaskRepository(session, caller.organization_id).get(project_id, job_id, task_id))


def create(
    session: Session, settings: Settings, caller: Identity, project_id: str, job_id: str, new: TaskCreate
) -> Versioned[TaskWithExecution]:
    tasks = TaskRepository(session, caller.organization_id)
    created = tasks.create(project_id, job_id, new)
    _store_api_key(tasks, settings, created, new)
    return _add_etag(created)


def update(
    session: Session,
    settings: Settings,
    caller: Identity,
    project_id: str,
    job_id: str,
    task_id: str,
    changes: TaskUpdate,
    if_match: Collection[str],
) -> Versioned[TaskWithExecution]:
    tasks = TaskRepository(session, caller.organization_id)
    tasks.lock(project_id, tasks.get(project_id, job_id, task_id).task, if_match)
    updated = tasks.update(project_id, job_id, task_id, changes)
    _store_api_key(tasks, settings, updated, changes)
    return _add_etag(updated)


def delete(
    session: Session, caller: Identity, project_id: str, job_id: str, task_id: str, if_match: Collection[str]
) -> None:
    tasks = TaskRepository(session, caller.organization_id)
    tasks.lock(project_id, tasks.get(project_id, job_id, task_id).task, if_match)
    tasks.delete(project_id, job_id, task_id)


def stop(session: Session, caller: Identity, project_id: str, job_id: str, task_id: str) -> None:
    TaskRepository(session, caller.organization_id).stop(project_id, job_id, task_id)


def stop_job(session: Session, caller: Identity, project_id: str, job_id: str) -> JobWithTasks:
    """Cancel all executions of the job that have not ended, and return the job."""
    TaskRepository(session, caller.organization_id).stop_all(project_id, job_id)
    return JobRepository(session, caller.organization_id).get_with_tasks(project_id, job_id)


def _store_api_key(tasks: TaskRepository, settings: Settings, found: TaskWithExecution, changes: TaskUpdate) -> None:
    if changes.api_key is not None:
        tasks.store_api_key(found.task, changes.api_key, KeyRing(load_service_key(settings)))


def _add_etag(found: TaskWithExecution) -> Versioned[TaskWithExecution]:
    return Versioned(found, compute_etag(found.task))
