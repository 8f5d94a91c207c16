"""Operations on executions, as the REST API offers them."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

from core.data.files.process import open_file_reader
from core.definitions.identity.api_keys import Identity
from core.errors import NotFound
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage import load_storage_secrets
from core.infra.storage.protocol import (
    NotStored,
    Storage,
    failures_key,
    files_key,
    kept_files_key,
    list_used_pages,
    log_key,
    pages_key,
)
from core.lifecycle.executions.attempts import list_attempts
from core.lifecycle.executions.failures import FailedPages, read_failed_pages
from core.lifecycle.executions.logs import read_execution_log
from core.lifecycle.executions.payload import CompletionPayload
from core.lifecycle.executions.reconcile import MarkedZombies, fail_zombies
from core.lifecycle.executions.reports import cancel, record_report
from core.lifecycle.executions.repository import ExecutionRepository, load_current_attempt
from core.lifecycle.executions.tokens import execution_token, find_signer
from core.tables import Execution, ExecutionAttempt, now
from core.tables.states import State
from pipelines.filesystem import load_storage_access

SIGNING_ATTEMPTS = 20  # reports without an attempt are checked against the tokens of so many attempts


_DIGEST = re.compile("[0-9a-f]{64}")


class ExecutionService:
    """Every method works on the executions of the caller's organization; others are unknown to it (NotFound)."""

    def __init__(self, database: Database, settings: Settings, storage: Storage) -> None:
        self._database = database
        self._settings = settings
        self._storage = storage
        self._files = open_file_reader(settings)

    def list(
        self, caller: Identity, project_id: str, job_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Return the job's executions, the newest first."""
        with self._database.read() as session:
            executions = ExecutionRepository(session, caller.organization_id)
            return executions.list_records(project_id, job_id, limit=limit, before=before)

    def list_of_organization(
        self,
        caller: Identity,
        states: Collection[State],
        since: datetime | None = None,
        *,
        limit: int | None = None,
        before: str | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the executions of all projects in these states that were accepted since then, the newest first."""
        with self._database.read() as session:
            executions = ExecutionRepository(session, caller.organization_id)
            return executions.list_of_organization(states, since, limit=limit, before=before)

    def get(self, caller: Identity, project_id: str, job_id: str, execution_id: str) -> Mapping[str, Any]:
        with self._database.read() as session:
            executions = ExecutionRepository(session, caller.organization_id)
            return executions.load_record(executions.get(project_id, job_id, execution_id))

    def read_logs(
        self,
        caller: Identity,
        project_id: str,
        job_id: str,
        execution_id: str,
        *,
        tail: int,
        level: str | None,
        pod_type: str,
        executor: str | None = None,
        attempt: int | None = None,
    ) -> list[str]:
        """Return the last lines of an attempt's log, by default the current one's, that have at least this level.

        Lines of executors are those of one, or of all.
        """
        with self._database.read() as session:
            execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
        if attempt is not None and attempt > execution.attempt:
            raise NotFound(f"The execution has no attempt {attempt}.")
        self._check_kept(
            execution, log_key(execution.organization_id, execution.id, attempt or execution.attempt), "log"
        )
        private = [self._settings.data.resolve()]
        return read_execution_log(
            self._storage,
            execution,
            tail=tail,
            level=level,
            pod_type=pod_type,
            executor=executor,
            attempt=attempt,
            private=private,
        )

    def list_failed_pages(
        self,
        caller: Identity,
        project_id: str,
        job_id: str,
        execution_id: str,
        *,
        attempt: int | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> FailedPages:
        """Return pages that an attempt could not fetch, by default the current one, and the counts of all."""
        with self._database.read() as session:
            execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
        if attempt is not None and attempt > execution.attempt:
            raise NotFound(f"The execution has no attempt {attempt}.")
        number = attempt or execution.attempt
        self._check_kept(
            execution, failures_key(execution.organization_id, execution.id, number), "list of failed pages"
        )
        return read_failed_pages(self._storage, execution, number, after=after, limit=limit)

    def _check_kept(self, execution: Execution, key: str, name: str) -> None:
        """Raise NotFound for a file of an execution that is missing since it is not kept any longer."""
        days, ended_at = self._settings.retention.log_days, execution.completed_at or execution.updated_at
        if not State(execution.state).terminal or now() - ended_at < timedelta(days=days):
            return
        try:
            self._storage.open(key).close()
        except NotStored:
            sentence = f"The {name} of this execution is not kept any longer than {days:g} days after its end."
            raise NotFound(sentence, code="not-kept") from None

    def list_attempts(
        self, caller: Identity, project_id: str, job_id: str, execution_id: str
    ) -> Sequence[ExecutionAttempt]:
        """Return the execution's attempts, the first one first."""
        with self._database.read() as session:
            execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
            return list_attempts(session, execution)

    def open_file(self, caller: Identity, project_id: str, job_id: str, execution_id: str, digest: str) -> BinaryIO:
        """Open a file of the execution, or one that executions share, by the SHA-256 of its content."""
        with self._database.read() as session:
            execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
        folders = (files_key(execution.organization_id, execution.id), kept_files_key(execution.organization_id))
        for folder in folders if _DIGEST.fullmatch(digest) else ():
            with suppress(NotStored):
                return self._storage.open(f"{folder}/{digest}")
        raise NotFound("The execution has no file with this hash.")

    def export_pages(self, caller: Identity, project_id: str, job_id: str, execution_id: str) -> Generator[bytes]:
        """Return a WARC archive of the pages that the execution used, as far as they are stored as they were.

        Raises NotFound where there are none.
        """
        with self._database.read() as session:
            execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
        from pipelines.page_cache.cache import list_stored_pages  # loads Arrow
        from pipelines.page_cache.warc import stream_archive

        address = partial(self._storage.url_for, reader="spark")
        folders = list_used_pages(execution.organization_id, execution.id, execution.attempt)
        pages = list_stored_pages(
            address(pages_key(execution.organization_id)),
            [address(folder) for folder in folders],
            execution.completed_at or now(),
            load_storage_access(load_storage_secrets(self._settings.storage)),
        )
        if (first := next(pages, None)) is None:
            sentence = "No page of this execution is stored, or none any longer as it was."
            raise NotFound(sentence, code="not-kept")
        return stream_archive(chain((first,), pages))

    def read_shared_file(self, organization_id: str, digest: str) -> bytes | None:
        """Return the file with this hash that the organization's executions share; None without one."""
        if not _DIGEST.fullmatch(digest):
            return None
        try:
            with self._storage.open(f"{kept_files_key(organization_id)}/{digest}") as file:
                return file.read()
        except NotStored:
            return None

    def cancel(self, caller: Identity, project_id: str, job_id: str, execution_id: str) -> Mapping[str, Any]:
        """Cancel the execution unless it has ended; return it as it is then."""
        self.get(caller, project_id, job_id, execution_id)
        cancel(self._database, caller.organization_id, execution_id, "The execution was cancelled.")
        return self.get(caller, project_id, job_id, execution_id)

    def record_report(self, caller: Identity, project_id: str, job_id: str, payload: CompletionPayload) -> None:
        """Apply a report that was sent with a key of the organization."""
        record_report(self._database, self._storage, caller.organization_id, project_id, job_id, payload, self._files)

    def record_signed_report(
        self, project_id: str, job_id: str, payload: CompletionPayload, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Apply a report that was signed with the token of one of the execution's attempts, or raise Unauthorized.

        The attempt is the one that the report names; otherwise the one, among the latest, whose token signed it.
        """
        if payload.attempt is not None:
            attempts = range(payload.attempt, payload.attempt + 1)
        else:
            with self._database.read() as session:
                current = load_current_attempt(session, payload.execution_id)
            attempts = range(current, max(current - SIGNING_ATTEMPTS, 0), -1)
        tokens = [execution_token(self._settings, payload.execution_id, attempt) for attempt in attempts]
        signed = {"attempt": attempts[find_signer(tokens, headers, body)]}
        payload = payload.model_copy(update={"additional_metrics": (payload.additional_metrics or {}) | signed})
        record_report(self._database, self._storage, None, project_id, job_id, payload, self._files)

    def fail_zombies(self, caller: Identity, timeout_hours: int) -> MarkedZombies:
        """Fail the executions that have been running for longer than this many hours."""
        return fail_zombies(self._database, caller.organization_id, timeout_hours, now())
