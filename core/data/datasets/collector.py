"""The part of a cleanup that applies the retention of datasets, and deletes files that no version of a dataset names.

Files are deleted in two steps, so that no reader loses its files: a folder without a version is stored with the time
at which its files may go. Queries, downloads and everything else that reads files take less time than that; files that
executions read stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from sqlalchemy import delete, select, update

from core.data.datasets.kept_files import delete_unused
from core.data.datasets.maintenance import list_due, maintain_dataset
from core.data.datasets.repository import TRIAL
from core.data.datasets.versions import (
    apply_retention,
    list_versions,
    list_with_surplus,
    load_named_locations,
    load_read_locations,
    remove_versions,
    schedule_removals,
)
from core.errors import Conflict, NotFound, Unavailable
from core.infra.cleanup import Cleanup
from core.infra.database import Database
from core.infra.installation import check_installation
from core.infra.repository import lock_organization
from core.infra.settings import Settings
from core.infra.storage.protocol import (
    NotStored,
    Storage,
    StoredFile,
    datasets_key,
    event_logs_key,
    executions_key,
    kept_files_key,
    known_key,
    parse_event_log_key,
    tables_key,
)
from core.tables import Dataset, Execution, FileRemoval, Job, Organization, now
from core.tables.states import State
from pipelines.fetch.files import release_bytes

BATCH = 500
TRIAL_DAYS = 7
# folders that hold a version's files, or nothing of worth
LOCATION = re.compile(
    r"[^/]+/(executions/(?P<execution>[^/]+)/\d+/(output|saves/[^/]+)|datasets/[^/]+/[^/]+|tables/[^/]+/[^/]+"
    r"|known/[^/]+/(?P<knowing>[^/]+)-\d+)"
)

log = structlog.get_logger()


class FileCollector:
    """It may be killed at any point: the next cleanup continues."""

    def __init__(self, settings: Settings, database: Database, storage: Storage) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage
        self._delay = timedelta(hours=settings.files.removed_files_hours)

    def collect(self, at: datetime | None = None, cleanup: Cleanup | None = None) -> None:
        """Apply retention, and delete old trials and files that are due.

        Raises ForeignInstallation, as `sweep` does, when the storage belongs to another database.
        """
        at, cleanup = at or now(), cleanup or Cleanup()
        check_installation(self._settings, self._database, self._storage)
        self._apply_retention(cleanup, at)
        self._delete_trials(cleanup, at)
        self._delete_due(cleanup, at)

    def sweep(self, at: datetime | None = None, cleanup: Cleanup | None = None) -> None:
        """Find the folders that no version names, of failed attempts and deleted records, by listing the storage."""
        at, cleanup = at or now(), cleanup or Cleanup()
        check_installation(self._settings, self._database, self._storage)
        with self._database.read() as session:
            organizations = session.scalars(select(Organization.id)).all()
        for organization_id in organizations:
            with self._database.read() as session:
                used = load_named_locations(session, organization_id) | load_read_locations(session, organization_id)
                states = [state for state in State if not state.terminal]
                unfinished = set(
                    session.scalars(
                        select(Execution.id).where(
                            Execution.organization_id == organization_id, Execution.state.in_(states)
                        )
                    )
                )
            for location, written_at in self._list_locations(organization_id):
                match = LOCATION.fullmatch(location)
                busy = match is not None and (match["execution"] or match["knowing"]) in unfinished
                if location not in used and not busy and written_at < at - self._delay:
                    with cleanup.write(self._database) as session:
                        schedule_removals(session, organization_id, [location], at + self._delay)
            self._delete_kept(cleanup, organization_id, at)
        self._delete_event_logs(cleanup, at)

    def _delete_kept(self, cleanup: Cleanup, organization_id: str, at: datetime) -> None:
        """Delete the shared files of deleted rows."""
        try:
            deleted = delete_unused(cleanup, self._database, self._storage, organization_id, at - self._delay)
        except (NotStored, Unavailable, OSError, ValueError) as error:  # of rows that cannot be read: perhaps later
            log.warning("kept files not looked at", organization_id=organization_id, reason=str(error))
            return
        size = sum(file.size_bytes for file in deleted)
        if deleted and not cleanup.dry_run and self._storage.export_access() is None:
            release_bytes(Path(self._storage.url_for(kept_files_key(organization_id), "spark")), size)

    def _delete_event_logs(self, cleanup: Cleanup, at: datetime) -> None:
        """Delete Spark's event logs of executions that were deleted."""
        files = (each for each in self._storage.list(event_logs_key()) if each.modified_at < at - self._delay)
        logs = [(file, execution_id) for file in files if (execution_id := parse_event_log_key(file.key))]
        for start in range(0, len(logs), BATCH):
            batch = logs[start : start + BATCH]
            with self._database.read() as session:
                known = set(session.scalars(select(Execution.id).where(Execution.id.in_([each for _, each in batch]))))
            for file in (file for file, execution_id in batch if execution_id not in known):
                cleanup.delete_file("Spark's event logs", self._storage, file)

    def _apply_retention(self, cleanup: Cleanup, at: datetime) -> None:
        with self._database.read() as session:
            found = [(dataset.id, dataset.organization_id) for dataset in list_with_surplus(session, at)]
        for dataset_id, organization_id in found:
            with cleanup.write(self._database) as session:
                lock_organization(session, organization_id)
                dataset = session.get(Dataset, dataset_id)
                removed = apply_retention(session, dataset, at, at + self._delay) if dataset else 0
            cleanup.count("versions of datasets", removed)

    def _delete_trials(self, cleanup: Cleanup, at: datetime) -> None:
        """Delete the rows that executions have kept apart for some days, unless a job has them as its input."""
        is_input = select(Job.id).where(Job.input_dataset_id == Dataset.id).exists()
        old = (Dataset.dataset_type == TRIAL, Dataset.created_at < at - timedelta(days=TRIAL_DAYS), ~is_input)
        with self._database.read() as session:
            organizations = set(session.scalars(select(Dataset.organization_id).where(*old)))
        for organization_id in organizations:
            with cleanup.write(self._database) as session:
                lock_organization(session, organization_id)
                found = session.scalars(select(Dataset).where(*old, Dataset.organization_id == organization_id)).all()
                versions = [version for dataset in found for version in list_versions(session, dataset)]
                for dataset in found:
                    session.delete(dataset)
                session.flush()
                remove_versions(session, organization_id, versions, at + self._delay)
            cleanup.count("trials", len(found))

    def maintain(self, at: datetime | None = None) -> None:
        """Maintain the tables whose plan wants it; one that is being written waits for the next round."""
        at = at or now()
        with self._database.read() as session:
            due = list_due(session, at)
        if due:
            check_installation(self._settings, self._database, self._storage)
        for dataset_id, organization_id, days in due:
            try:
                place = (organization_id, dataset_id, days, at + self._delay)
                done = maintain_dataset(self._database, self._storage, *place)
                log.info("maintained", dataset_id=dataset_id, files=done.files_removed, bytes=done.bytes_removed)
            except NotFound:
                continue
            except (Conflict, Unavailable) as error:
                if error.details[0].code == "dataset-written":
                    continue
                log.warning("not maintained", dataset_id=dataset_id, reason=error.sentence)
            with self._database.write() as session:
                session.execute(update(Dataset).where(Dataset.id == dataset_id).values(maintained_at=at))

    def _delete_due(self, cleanup: Cleanup, at: datetime) -> None:
        query, done = select(FileRemoval).where(FileRemoval.due_at <= at), ""
        while True:
            with self._database.read() as session:
                due = session.scalars(query.where(FileRemoval.id > done).order_by(FileRemoval.id).limit(BATCH)).all()
            for organization_id in {each.organization_id for each in due}:
                owned = [each for each in due if each.organization_id == organization_id]
                self._delete(cleanup, organization_id, owned, at)
            if len(due) < BATCH:
                return
            done = due[-1].id

    def _delete(self, cleanup: Cleanup, organization_id: str, removals: list[FileRemoval], at: datetime) -> None:
        """Delete the files of folders; one that an execution reads waits, one that has a version again stays."""
        with cleanup.write(self._database) as session:
            lock_organization(session, organization_id)
            named = load_named_locations(session, organization_id)
            read = load_read_locations(session, organization_id)
            for removal in removals:
                if removal.location in read:
                    session.merge(removal).due_at = at + self._delay
            settled = [each for each in removals if each.location not in read]
            session.execute(delete(FileRemoval).where(FileRemoval.id.in_([each.id for each in settled])))
        for removal in settled:
            if removal.location not in named:
                for file in self._list_files(removal.location):
                    cleanup.delete_file("files of removed versions", self._storage, file)

    def _list_files(self, location: str) -> Sequence[StoredFile]:
        """Return the files of a folder, or the one file of a table that was maintained."""
        if not location.endswith((".parquet", ".avro")):
            return list(self._storage.list(location))
        return [StoredFile(location, self._measure(location), now())]

    def _measure(self, key: str) -> int:
        try:
            with self._storage.open(key) as file:
                return file.seek(0, 2)
        except NotStored:
            return 0

    def _list_locations(self, organization_id: str) -> Iterator[tuple[str, datetime]]:
        """Yield the folders of versions with the time of their last write."""
        current, written_at = "", datetime.min.replace(tzinfo=UTC)
        keys = (executions_key, datasets_key, tables_key, known_key)
        folders = (key(organization_id) for key in keys)
        for file in (file for folder in folders for file in self._storage.list(folder)):
            match = LOCATION.match(file.key)
            location = match[0] if match and file.key.startswith(f"{match[0]}/") else ""
            if location != current:
                if current:
                    yield current, written_at
                current, written_at = location, file.modified_at
            written_at = max(written_at, file.modified_at)
        if current:
            yield current, written_at
