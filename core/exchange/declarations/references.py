"""The names by which declared jobs refer to records that a declaration does not contain: tables and credentials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.credentials.repository import CredentialRepository
from core.tables import Dataset

DATASET, CREDENTIAL = "inputDataset", "cloudCredential"


class References:
    """The ids of an organization's tables by `schema.table` and of its credentials by `PROVIDER/name`, read once."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self._session = session
        self._organization_id = organization_id
        self._ids: dict[str, Mapping[str, Sequence[str]]] = {}
        self._names: dict[str, Mapping[str, str]] = {}

    def load_ids(self, kind: str) -> Mapping[str, Sequence[str]]:
        if kind not in self._ids:
            self._ids[kind] = self._load_dataset_ids() if kind == DATASET else self._load_credential_ids()
        return self._ids[kind]

    def find_name(self, kind: str, record_id: str) -> str | None:
        if kind not in self._names:
            self._names[kind] = {each: name for name, ids in self.load_ids(kind).items() for each in ids}
        return self._names[kind].get(record_id)

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
