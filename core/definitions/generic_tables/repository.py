"""Rows of one generic table of one organization, each a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.definitions.generic_tables.documents import Document, merge, remove_server_fields, serialize
from core.definitions.generic_tables.fields import make_field
from core.definitions.generic_tables.query import Field, RowPage, RowQuery, Sort
from core.errors import BadInput, NotFound, TooLarge
from core.infra.repository import lock_row
from core.infra.validation import is_storable
from core.tables import GenericTableRow

MAX_LIST_BYTES = 16 * 2**20
TABLE_NAME = "[A-Za-z0-9_][A-Za-z0-9_-]{0,63}"
_TIMES: Mapping[Field, InstrumentedAttribute[datetime]] = {
    ("createdAt",): GenericTableRow.created_at,
    ("updatedAt",): GenericTableRow.updated_at,
}


class GenericTableRepository:
    """The rows of one table, which exists as soon as it has one."""

    def __init__(self, session: Session, organization_id: str, table: str) -> None:
        """Raise BadInput for an invalid table name."""
        if not re.fullmatch(TABLE_NAME, table):
            sentence = "A table's name has up to 64 letters, digits, '_' and '-', and does not begin with '-'."
            raise BadInput(sentence, path="table")
        self._session = session
        self._organization_id = organization_id
        self._table = table

    def create(self, document: Document) -> GenericTableRow:
        row = GenericTableRow(organization_id=self._organization_id, table_name=self._table)
        self._session.add(row)
        return self._write(row, remove_server_fields(document))

    def get(self, row_id: str) -> GenericTableRow:
        return self._fetch(row_id)

    def lock(self, row_id: str, if_match: Collection[str]) -> None:
        """Lock the row until the transaction ends; raise PreconditionFailed unless it has one of the ETags."""
        lock_row(self._session, self._organization_id, self._fetch(row_id), if_match)

    def update(self, row_id: str, changes: Document) -> GenericTableRow:
        row = self._fetch(row_id, lock=True)
        return self._write(row, merge(json.loads(row.document), changes))

    def delete(self, row_id: str) -> None:
        self._session.delete(self._fetch(row_id, lock=True))
        self._session.flush()

    def list(self, query: RowQuery) -> RowPage:
        matching = [self._match(field, values) for field, values in query.filters.items()]
        total = self._session.scalar(self._select(func.count()).where(*matching)) or 0
        page = self._select(GenericTableRow.id, GenericTableRow.size_bytes).where(*matching)
        page = page.order_by(*self._build_order(query)).limit(query.page_size).offset(query.page * query.page_size)
        found = self._session.execute(page).all()
        if sum(size for _, size in found) > MAX_LIST_BYTES:
            raise TooLarge(f"The records of this page exceed {MAX_LIST_BYTES} bytes. Ask for a smaller pageSize.")
        ids = [row_id for row_id, _ in found]
        rows = {
            row.id: row
            for row in self._session.scalars(self._select(GenericTableRow).where(GenericTableRow.id.in_(ids)))
        }
        return RowPage([to_json(rows[row_id]) for row_id in ids if row_id in rows], total)

    def _select(self, *columns: Any) -> Select[Any]:
        owner = GenericTableRow.organization_id == self._organization_id
        return select(*columns).where(owner, GenericTableRow.table_name == self._table)

    def _fetch(self, row_id: str, *, lock: bool = False) -> GenericTableRow:
        query = self._select(GenericTableRow).where(GenericTableRow.id == row_id)
        found = self._session.scalar(query.with_for_update() if lock else query) if is_storable(row_id) else None
        if found is None:
            raise NotFound("There is no record with this id.")
        return cast(GenericTableRow, found)

    def _write(self, row: GenericTableRow, document: Document) -> GenericTableRow:
        row.document = serialize(document)
        row.size_bytes = len(row.document.encode())
        self._session.flush()
        return row

    def _match(self, field: Field, values: Sequence[str]) -> ColumnElement[bool]:
        if field == ("id",):
            return GenericTableRow.id.in_(values)
        if field in _TIMES:
            return _TIMES[field].in_([_parse_time(field[0], value) for value in values])
        return make_field(self._session, field).match(values)

    def _build_order(self, query: RowQuery) -> list[ColumnElement[Any]]:
        return [key for sort in query.sorts for key in self._sort_by(sort)] + [GenericTableRow.id.asc()]

    def _sort_by(self, sort: Sort) -> list[ColumnElement[Any]]:
        column = GenericTableRow.id if sort.field == ("id",) else _TIMES.get(sort.field)
        if column is not None:
            return [column.desc() if sort.descending else column.asc()]
        return [*make_field(self._session, sort.field).order(sort.descending)]


def to_json(row: GenericTableRow) -> str:
    """Return the stored document as JSON, after the fields that the server sets."""
    created_at, updated_at = _format_time(row.created_at), _format_time(row.updated_at)
    owned = {"id": row.id, "createdAt": created_at, "updatedAt": updated_at}
    head, body = json.dumps(owned, separators=(",", ":"))[:-1], row.document[1:]
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
