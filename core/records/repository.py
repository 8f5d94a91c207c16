"""Records of one organization: every statement names it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.errors import BadInput, Detail, NotFound, TooLarge
from core.infra.validation import storable
from core.records.documents import as_text, merged, own
from core.records.fields import document_field
from core.records.query import Field, Listing, Query, Sort
from core.tables import StoredRecord

MAX_LIST_BYTES = 16 * 2**20
TABLE_NAME = "[A-Za-z0-9_][A-Za-z0-9_-]{0,63}"
_TIMES: Mapping[Field, InstrumentedAttribute[datetime]] = {
    ("createdAt",): StoredRecord.created_at,
    ("updatedAt",): StoredRecord.updated_at,
}


class Records:
    """The records of one table, which is there as soon as it has one."""

    def __init__(self, session: Session, organization_id: str, table: str) -> None:
        """Raises BadInput for what cannot be a table's name."""
        if not re.fullmatch(TABLE_NAME, table):
            sentence = "A table's name has up to 64 letters, digits, '_' and '-', and does not begin with '-'."
            raise BadInput(sentence, [Detail("table", sentence)])
        self._session = session
        self._organization_id = organization_id
        self._table = table

    def create(self, document: Mapping[str, Any]) -> StoredRecord:
        """Raises BadInput for what cannot be stored, TooLarge beyond 1 MiB."""
        record = StoredRecord(organization_id=self._organization_id, table_name=self._table)
        self._session.add(record)
        return self._write(record, own(document))

    def get(self, record_id: str) -> StoredRecord:
        return self._one(record_id)

    def update(self, record_id: str, changes: Mapping[str, Any]) -> StoredRecord:
        """Merges: what the changes leave out, or have as null, stays."""
        record = self._one(record_id, lock=True)
        return self._write(record, merged(json.loads(record.document), changes))

    def delete(self, record_id: str) -> None:
        self._session.delete(self._one(record_id, lock=True))
        self._session.flush()

    def list(self, query: Query) -> Listing:
        """Raises TooLarge when the page's records together exceed 16 MiB."""
        matching = [self._matches(field, values) for field, values in query.filters.items()]
        total = self._session.scalar(self._own(func.count()).where(*matching)) or 0
        page = self._own(StoredRecord.id, StoredRecord.size_bytes).where(*matching)
        page = page.order_by(*self._order(query)).limit(query.page_size).offset(query.page * query.page_size)
        found = self._session.execute(page).all()
        if sum(size for _, size in found) > MAX_LIST_BYTES:
            raise TooLarge(f"The records of this page exceed {MAX_LIST_BYTES} bytes. Ask for a smaller pageSize.")
        ids = [record_id for record_id, _ in found]
        records = {
            record.id: record
            for record in self._session.scalars(self._own(StoredRecord).where(StoredRecord.id.in_(ids)))
        }
        return Listing([shown(records[record_id]) for record_id in ids if record_id in records], total)

    def _own(self, *columns: Any) -> Select[Any]:
        owner = StoredRecord.organization_id == self._organization_id
        return select(*columns).where(owner, StoredRecord.table_name == self._table)

    def _one(self, record_id: str, *, lock: bool = False) -> StoredRecord:
        query = self._own(StoredRecord).where(StoredRecord.id == record_id)
        found = self._session.scalar(query.with_for_update() if lock else query) if storable(record_id) else None
        if found is None:
            raise NotFound("There is no record with this id.")
        return cast(StoredRecord, found)

    def _write(self, record: StoredRecord, document: Mapping[str, Any]) -> StoredRecord:
        record.document = as_text(document)
        record.size_bytes = len(record.document.encode())
        self._session.flush()
        return record

    def _matches(self, field: Field, values: Sequence[str]) -> ColumnElement[bool]:
        if field == ("id",):
            return StoredRecord.id.in_(values)
        if field in _TIMES:
            return _TIMES[field].in_([_time(field[0], value) for value in values])
        return document_field(self._session, field).matches(values)

    def _order(self, query: Query) -> list[ColumnElement[Any]]:
        return [key for sort in query.sorts for key in self._sorted(sort)] + [StoredRecord.id.asc()]

    def _sorted(self, sort: Sort) -> list[ColumnElement[Any]]:
        column = StoredRecord.id if sort.field == ("id",) else _TIMES.get(sort.field)
        if column is not None:
            return [column.desc() if sort.descending else column.asc()]
        return [*document_field(self._session, sort.field).order(sort.descending)]


def shown(record: StoredRecord) -> str:
    """JSON of the document as it is stored, with what the server owns before it."""
    owned = {"id": record.id, "createdAt": _iso(record.created_at), "updatedAt": _iso(record.updated_at)}
    head, body = json.dumps(owned, separators=(",", ":"))[:-1], record.document[1:]
    return f"{head},{body}" if body != "}" else f"{head}}}"


def _iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _time(name: str, value: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(value)
        if parsed.tzinfo is not None:
            return parsed
    except ValueError:
        pass  # told below, as is a time without a zone
    sentence = f"'{name}' is compared with a time in ISO 8601 with its zone."
    raise BadInput(sentence, [Detail(name, sentence)])
