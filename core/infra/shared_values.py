"""Taking values that many rows have in common out of them: a cleanup stores them once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping, Select, bindparam, delete, inspect, select, update
from sqlalchemy.orm import Session

from core.infra.database import build_upsert
from core.infra.repository import lock_organization
from core.tables import DatasetVersion, SharedValues
from core.tables.base import Base


class SharedValuesWriter:
    """Stores values in one transaction, equal ones of an owner once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, int] = {}  # ids by digest

    def store(self, content: Mapping[str, Any], **owner: str) -> int:
        """Return the id of the values of an owner: an organization, and a job or dataset with which they go."""
        text = json.dumps([owner, content], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self._known:
            added = build_upsert(self._session, SharedValues).values(digest=digest, content=content, **owner)
            self._session.execute(added.on_conflict_do_nothing())
            found = self._session.scalars(select(SharedValues.id).where(SharedValues.digest == digest))
            self._known[digest] = found.one()
        return self._known[digest]


def select_locked(session: Session, query: Select[Any]) -> Sequence[RowMapping]:
    """Return the rows of a query, which have an `organization_id`, after locking the organizations of all of them.

    Nobody deletes the rows in the meantime, or what the values that they have in common would go with.
    """
    owners = {row.organization_id for row in session.execute(query)}
    for owner in sorted(owners):
        lock_organization(session, owner)
    return session.execute(query.where(query.selected_columns.organization_id.in_(owners))).mappings().all()


def replace_values(session: Session, entity: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Update rows by their primary key; all have the same columns. Rows that were deleted since stay so."""
    if rows:
        keys = {column.name: bindparam(f"key_{column.name}") for column in inspect(entity).primary_key}
        changed = update(entity).where(*(getattr(entity, name) == key for name, key in keys.items()))
        values = {name: bindparam(f"new_{name}") for name in rows[0] if name not in keys}
        parameters = [
            {f"key_{name}" if name in keys else f"new_{name}": value for name, value in row.items()} for row in rows
        ]
        session.connection().execute(changed.values(values), parameters)


def delete_unused(session: Session, dataset_ids: Iterable[str]) -> None:
    """Delete what no version of these datasets has any more. The caller has locked the organization."""
    ids = sorted(set(dataset_ids))
    used = select(DatasetVersion.shared_id).where(
        DatasetVersion.dataset_id.in_(ids), DatasetVersion.shared_id.is_not(None)
    )
    session.execute(
        delete(SharedValues).where(SharedValues.dataset_id.in_(ids), SharedValues.id.not_in(used)),
        execution_options={"synchronize_session": False},
    )
