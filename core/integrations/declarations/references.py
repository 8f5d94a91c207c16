"""The names by which declared jobs refer to records that a declaration does not contain: tables and credentials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.repository import DatasetRepository
from core.definitions.credentials.repository import CredentialRepository
from core.tables import Dataset, Job, Project

DATASET, CREDENTIAL = "inputDataset", "cloudCredential"


class References:
    """The ids of an organization's tables by `schema.table` and of its credentials by `PROVIDER/name`, read once."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self._session = session
        self._organization_id = organization_id
        self._ids: dict[str, Mapping[str, Sequence[str]]] = {}
        self._names: dict[str, Mapping[str, str]] = {}
        self._job_tables: Mapping[str, tuple[str, str]] | None = None  # ids of jobs and of their projects

    def load_ids(self, kind: str) -> Mapping[str, Sequence[str]]:
        if kind not in self._ids:
            self._ids[kind] = self._load_dataset_ids() if kind == DATASET else self._load_credential_ids()
        return self._ids[kind]

    def find_name(self, kind: str, record_id: str) -> str | None:
        if kind not in self._names:
            self._names[kind] = {each: name for name, ids in self.load_ids(kind).items() for each in ids}
        return self._names[kind].get(record_id)

    def create_job_table(self, name: str) -> str | None:
        """Return the id of a table that a job will publish, created if need be; None when no job has that table."""
        found = self._load_job_tables().get(name)
        if found is None:
            return None
        job, project = self._session.get_one(Job, found[0]), self._session.get_one(Project, found[1])
        dataset = DatasetRepository(self._session, self._organization_id).ensure_of_job(job, project)
        if f"{dataset.schema_slug}.{dataset.slug}" != name:  # another table had the name when the job published first
            return None
        self._ids.pop(DATASET, None)
        self._names.pop(DATASET, None)
        return dataset.id

    def list_tables(self) -> Sequence[str]:
        """Return the names of all tables, and of those that jobs will publish."""
        return [*self.load_ids(DATASET), *self._load_job_tables()]

    def _load_job_tables(self) -> Mapping[str, tuple[str, str]]:
        if self._job_tables is None:
            query = select(Project.slug, Job.slug, Job.id, Project.id).join(Project, Project.id == Job.project_id)
            rows = self._session.execute(query.where(Job.organization_id == self._organization_id))
            self._job_tables = {f"{schema}.{table}": (job_id, project_id) for schema, table, job_id, project_id in rows}
        return self._job_tables

    def _load_dataset_ids(self) -> Mapping[str, Sequence[str]]:
        query = select(Dataset.schema_slug, Dataset.slug, Dataset.id)
        rows = self._session.execute(query.where(Dataset.organization_id == self._organization_id))
        return {f"{schema}.{table}": [dataset_id] for schema, table, dataset_id in rows}

    def _load_credential_ids(self) -> Mapping[str, Sequence[str]]:
        """A global credential has a name unless one of the organization has it."""
        rows = CredentialRepository(self._session, self._organization_id).list()
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row.organization_id is None):
            name = f"{row.provider}/{row.name}"
            if row.organization_id is not None or not ids[name]:
                ids[name].append(row.id)
        return ids
