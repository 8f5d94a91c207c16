"""Operations on one generic table of the caller's organization. A table exists as soon as it has a row.

All raise BadInput for an invalid table name, and NotFound for an unknown row.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy.orm import Session

from core.definitions.generic_tables.documents import Document
from core.definitions.generic_tables.query import RowPage, RowQuery
from core.definitions.generic_tables.repository import GenericTableRepository
from core.definitions.identity.api_keys import Identity
from core.infra.preconditions import Versioned, add_etag
from core.tables import GenericTableRow


def list_rows(session: Session, caller: Identity, table: str, query: RowQuery) -> RowPage:
    """Raise TooLarge when the rows of the page exceed 16 MiB."""
    return GenericTableRepository(session, caller.organization_id, table).list(query)


def get(session: Session, caller: Identity, table: str, row_id: str) -> Versioned[GenericTableRow]:
    return add_etag(GenericTableRepository(session, caller.organization_id, table).get(row_id))


def create(session: Session, caller: Identity, table: str, document: Document) -> Versioned[GenericTableRow]:
    """Raise BadInput for a document that cannot be stored, TooLarge beyond 1 MiB."""
    return add_etag(GenericTableRepository(session, caller.organization_id, table).create(document))


def update(
    session: Session, caller: Identity, table: str, row_id: str, changes: Document, if_match: Collection[str]
) -> Versioned[GenericTableRow]:
    """Merge: fields that the changes leave out, or have as null, keep their values."""
    rows = GenericTableRepository(session, caller.organization_id, table)
    rows.lock(row_id, if_match)
    return add_etag(rows.update(row_id, changes))


def delete(session: Session, caller: Identity, table: str, row_id: str, if_match: Collection[str]) -> None:
    rows = GenericTableRepository(session, caller.organization_id, table)
    rows.lock(row_id, if_match)
    rows.delete(row_id)
