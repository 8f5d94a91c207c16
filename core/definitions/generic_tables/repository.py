"""Records of one table of one organization."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.definitions.generic_tables.documents import merge, remove_server_fields, serialize
from core.definitions.generic_tables.fields import make_field
from core.definitions.generic_tables.query import Field, RecordPage, RecordQuery, Sort
from core.errors import BadInput, NotFound, TooLarge
from core.infra.repository import lock_row
from core.infra.validation import is_storable
from core.tables import StoredRecord

MAX_LIST_BYTES = 16 * 2**20
TABLE_NAME = "[A-Za-z0-9_][A-Za-z0-9_-]{0,63}"
_TIMES: Mapping[Field, InstrumentedAttribute[datetime]] = {
    ("createdAt",): StoredRecord.created_at,
    ("updatedAt",): StoredRecord.updated_at,
}


class RecordRepository:
    """The records of one table, which exists as soon as it has one."""

    def __init__(self, session: Session, organization_id: str, table: str) -> None:
        """Raise BadInput for an invalid table name."""
        if not re.fullmatch(TABLE_NAME, table):
            sentence = "A table's name has up to 64 letters, digits, '_' and '-', and does not begin with '-'."
            raise BadInput(sentence, path="table")
        self._session = session
        self._organization_id = organization_id
        self._table = table

    def create(self, document: Mapping[str, Any]) -> StoredRecord:
        record = StoredRecord(organization_id=self._organization_id, table_name=self._table)
        self._session.add(record)
        return self._write(record, remove_server_fields(document))

    def get(self, record_id: str) -> StoredRecord:
        return self._fetch(record_id)

    def lock(self, record_id: str, if_match: Collection[str]) -> None:
        """Lock the record until the transaction ends; raise PreconditionFailed unless it has one of the ETags."""
        lock_row(self._session, self._organization_id, self._fetch(record_id), if_match)

    def update(self, record_id: str, changes: Mapping[str, Any]) -> StoredRecord:
        record = self._fetch(record_id, lock=True)
        return self._write(record, merge(json.loads(record.document), changes))

    def delete(self, record_id: str) -> None:
        self._session.delete(self._fetch(record_id, lock=True))
        self._session.flush()

    def list(self, query: RecordQuery) -> RecordPage:
        matching = [self._match(field, values) for field, values in query.filters.items()]
        total = self._session.scalar(self._select(func.count()).where(*matching)) or 0
        page = self._select(StoredRecord.id, StoredRecord.size_bytes).where(*matching)
        page = page.order_by(*self._build_order(query)).limit(query.page_size).offset(query.page * query.page_size)
        found = self._session.execute(page).all()
        if sum(size for _, size in found) > MAX_LIST_BYTES:
            raise TooLarge(f"The records of this page exceed {MAX_LIST_BYTES} bytes. Ask for a smaller pageSize.")
        ids = [record_id for record_id, _ in found]
        records = {
            record.id: record
            for record in self._session.scalars(self._select(StoredRecord).where(StoredRecord.id.in_(ids)))
        }
        return RecordPage([to_json(records[record_id]) for record_id in ids if record_id in records], total)

    def _select(self, *columns: Any) -> Select[Any]:
        owner = StoredRecord.organization_id == self._organization_id
        return select(*columns).where(owner, StoredRecord.table_name == self._table)

    def _fetch(self, record_id: str, *, lock: bool = False) -> StoredRecord:
        query = self._select(StoredRecord).where(StoredRecord.id == record_id)
        found = self._session.scalar(query.with_for_update() if lock else query) if is_storable(record_id) else None
        if found is None:
            raise NotFound("There is no record with this id.")
        return cast(StoredRecord, found)

    def _write(self, record: StoredRecord, document: Mapping[str, Any]) -> StoredRecord:
        record.document = serialize(document)
        record.size_bytes = len(record.document.encode())
        self._session.flush()
        return record

    def _match(self, field: Field, values: Sequence[str]) -> ColumnElement[bool]:
        if field == ("id",):
            return StoredRecord.id.in_(values)
        if field in _TIMES:
            return _TIMES[field].in_([_parse_time(field[0], value) for value in values])
        return make_field(self._session, field).match(values)

    def _build_order(self, query: RecordQuery) -> list[ColumnElement[Any]]:
        return [key for sort in query.sorts for key in self._sort_by(sort)] + [StoredRecord.id.asc()]

    def _sort_by(self, sort: Sort) -> list[ColumnElement[Any]]:
        column = StoredRecord.id if sort.field == ("id",) else _TIMES.get(sort.field)
        if column is not None:
            return [column.desc() if sort.descending else column.asc()]
        return [*make_field(self._session, sort.field).order(sort.descending)]


def to_json(record: StoredRecord) -> str:
    """Return the stored document as JSON, after the fields that the server sets."""
    created_at, updated_at = _format_time(record.created_at), _format_time(record.updated_at)
    owned = {"id": record.id, "createdAt": created_at, "updatedAt": updated_at}
    head, body = json.dumps(owned, separators=(",", ":"))[:-1], record.document[1:]
    return f"{head},{body}" if body != "}" else f"{head}}}"


def _format_time(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _parse_time(name: str, value: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(value)
        if parsed.tzinfo is not None:
            return parsed
    except ValueError:
        pass
    sentence = f"'{name}' is compared with a time in ISO 8601 with its zone."
    raise BadInput(sentence, path=name)
