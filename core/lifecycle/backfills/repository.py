"""Reading partitions and backfills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import func, select

from core.data.datasets.known_pages import find_dataset
from core.definitions.jobs.partitions import read_partitions
from core.definitions.jobs.repository import JobRepository
from core.infra.repository import Repository
from core.infra.validation import is_storable
from core.lifecycle.backfills.models import BackfillPartitionRecord, BackfillProgress, PartitionRecord
from core.tables import Backfill, DatasetVersion, Execution, Job
from core.tables.states import State

_Newest = tuple[str, str, str, str | None]


class BackfillRepository(Repository[Backfill]):
    """The backfills of one organization."""

    row = Backfill
    noun = "backfill"

    def get(self, project_id: str, job_id: str, backfill_id: str) -> Backfill:
        if not is_storable(project_id + job_id + backfill_id):
            raise self._not_found()
        same = (Backfill.project_id == project_id, Backfill.job_id == job_id, Backfill.id == backfill_id)
        return self._fetch_one(self._select().where(*same))

    def list(
        self, project_id: str, job_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Sequence[Backfill]:
        """Return a job's backfills, the newest first. Raises NotFound for an unknown job."""
        job = JobRepository(self.session, self.organization_id).get(project_id, job_id)
        query = self._select().where(Backfill.job_id == job.id)
        if before is not None:
            query = query.where(Backfill.id < before)
        return self.session.scalars(query.order_by(Backfill.id.desc()).limit(limit)).all()

    def load_progress(self, backfill: Backfill) -> BackfillProgress:
        columns = (Execution.partition, Execution.id, Execution.state, Execution.error_message)
        rows = self.session.execute(select(*columns).where(Execution.backfill_id == backfill.id))
        known = {key: (id_, state, error) for key, id_, state, error in rows}
        open_state = "WAITING" if backfill.state == "RUNNING" else "SKIPPED"
        found: list[BackfillPartitionRecord] = []
        for key in backfill.keys:
            if key in known:
                execution_id, state, error = known[key]
                found.append(BackfillPartitionRecord(key, state, execution_id, error))
            elif key in backfill.refused:
                found.append(BackfillPartitionRecord(key, "REFUSED", None, backfill.refused[key]))
            else:
                found.append(BackfillPartitionRecord(key, open_state, None, None))
        return BackfillProgress(backfill, Counter(each.state for each in found), found)

    def list_partitions(self, job: Job, at: datetime) -> Sequence[PartitionRecord]:
        """Return the job's partitions at a time, and those of its dataset that it would not have any more."""
        partitions = read_partitions(job.partitions)
        if not partitions:
            return []
        dataset = find_dataset(self.session, self.organization_id, job.id)
        version_id = dataset.current_version_id if dataset else None
        version = self.session.get(DatasetVersion, version_id) if version_id else None
        stored = version.partitions if version and version.partition_scheme == partitions.scheme else {}
        newest = self._load_newest(job, partitions.scheme)
        found: list[PartitionRecord] = []
        for key in dict.fromkeys((*partitions.list_keys(at), *stored)):
            part, execution = stored.get(key), newest.get(key)
            state = "PRESENT" if part else "MISSING"
            if execution is not None and execution[2] not in (State.COMPLETED, State.CANCELLED):
                state = "FAILED" if execution[2] == State.FAILED else "RUNNING"
            rows, written_by = (part.rows, part.execution_id or None) if part else (None, None)
            _, execution_id, execution_state, error = execution or (None, None, None, None)
            found.append(PartitionRecord(key, state, rows, written_by, execution_id, execution_state, error))
        return found

    def _load_newest(self, job: Job, scheme: str) -> Mapping[str, _Newest]:
        """Return the newest execution of every partition that publishes."""
        own = (Execution.job_id == job.id, Execution.partition.is_not(None))
        own = (*own, Execution.partition_scheme == scheme, Execution.publishes)
        ids = select(func.max(Execution.id)).where(*own).group_by(Execution.partition)
        columns = (Execution.partition, Execution.id, Execution.state, Execution.error_message)
        rows = self.session.execute(select(*columns).where(Execution.id.in_(ids)))
        return {key: (key, id_, state, error) for key, id_, state, error in rows if key is not None}
