"""Operations on the records of generic tables, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from core.definitions.generic_tables.query import RecordPage, RecordQuery
from core.definitions.generic_tables.repository import RecordRepository
from core.definitions.identity.api_keys import Identity
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.tables import StoredRecord


class RecordService:
    """Every method works on one table of the caller's organization. A table exists as soon as it has a record.

    Raises BadInput for an invalid table name, and NotFound for unknown records.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, caller: Identity, table: str, query: RecordQuery) -> RecordPage:
        """Raise TooLarge when the records of the page exceed 16 MiB."""
        with self._database.read() as session:
            return RecordRepository(session, caller.organization_id, table).list(query)

    def get(self, caller: Identity, table: str, record_id: str) -> Versioned[StoredRecord]:
        with self._database.read() as session:
            return _with_etag(RecordRepository(session, caller.organization_id, table).get(record_id))

    def create(self, caller: Identity, table: str, document: Mapping[str, Any]) -> Versioned[StoredRecord]:
        """Raise BadInput for a document that cannot be stored, TooLarge beyond 1 MiB."""
        with self._database.write() as session:
            return _with_etag(RecordRepository(session, caller.organization_id, table).create(document))

    def update(
        self, caller: Identity, table: str, record_id: str, changes: Mapping[str, Any], if_match: Collection[str]
    ) -> Versioned[StoredRecord]:
        """Merge: fields that the changes leave out, or have as null, keep their values."""
        with self._database.write() as session:
            records = RecordRepository(session, caller.organization_id, table)
            records.lock(record_id, if_match)
            return _with_etag(records.update(record_id, changes))

    def delete(self, caller: Identity, table: str, record_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            records = RecordRepository(session, caller.organization_id, table)
            records.lock(record_id, if_match)
            records.delete(record_id)


def _with_etag(record: StoredRecord) -> Versioned[StoredRecord]:
    return Versioned(record, compute_etag(record))
