"""Operations on tasks, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.repository import JobRepository, JobWithTasks
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.preconditions import Versioned, compute_etag
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.lifecycle.tasks.report import TaskWithExecution
from core.lifecycle.tasks.repository import TaskRepository


class TaskService:
    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def list(
        self, caller: Identity, project_id: str, job_id: str, *, limit: int | None = None, after: int | None = None
    ) -> Sequence[TaskWithExecution]:
        with self._database.read() as session:
            tasks = TaskRepository(session, caller.organization_id)
            return tasks.list(project_id, job_id, limit=limit, after=after)

    def get(self, caller: Identity, project_id: str, job_id: str, task_id: str) -> Versioned[TaskWithExecution]:
        with self._database.read() as session:
            return _add_etag(TaskRepository(session, caller.organization_id).get(project_id, job_id, task_id))

    def create(
        self, caller: Identity, project_id: str, job_id: str, values: Mapping[str, Any]
    ) -> Versioned[TaskWithExecution]:
        with self._database.write() as session:
            tasks = TaskRepository(session, caller.organization_id)
            created = tasks.create(project_id, job_id, values)
            self._store_api_key(tasks, created, values)
            return _add_etag(created)

    def update(
        self,
        caller: Identity,
        project_id: str,
        job_id: str,
        task_id: str,
        changes: Mapping[str, Any],
        if_match: Collection[str],
    ) -> Versioned[TaskWithExecution]:
        with self._database.write() as session:
            tasks = TaskRepository(session, caller.organization_id)
            tasks.lock(project_id, tasks.get(project_id, job_id, task_id).task, if_match)
            updated = tasks.update(project_id, job_id, task_id, changes)
            self._store_api_key(tasks, updated, changes)
            return _add_etag(updated)

    def delete(self, caller: Identity, project_id: str, job_id: str, task_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            tasks = TaskRepository(session, caller.organization_id)
            tasks.lock(project_id, tasks.get(project_id, job_id, task_id).task, if_match)
            tasks.delete(project_id, job_id, task_id)

    def stop(self, caller: Identity, project_id: str, job_id: str, task_id: str) -> None:
        with self._database.write() as session:
            TaskRepository(session, caller.organization_id).stop(project_id, job_id, task_id)

    def stop_job(self, caller: Identity, project_id: str, job_id: str) -> JobWithTasks:
        """Cancel what all tasks of the job run."""
        with self._database.write() as session:
            TaskRepository(session, caller.organization_id).stop_all(project_id, job_id)
            return JobRepository(session, caller.organization_id).get_with_tasks(project_id, job_id)

    def _store_api_key(self, tasks: TaskRepository, found: TaskWithExecution, values: Mapping[str, Any]) -> None:
        if "api_key" in values:
            tasks.store_api_key(found.task, values["api_key"], KeyRing(load_service_key(self._settings)))


def _add_etag(found: TaskWithExecution) -> Versioned[TaskWithExecution]:
    return Versioned(found, compute_etag(found.task))
