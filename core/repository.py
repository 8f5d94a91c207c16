"""What the repositories share: every row is read through its organization, ids of others are unknown ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from core.errors import NotFound
from core.tables import (
    Agent,
    ApiKey,
    Category,
    CloudCredential,
    Dataset,
    Execution,
    Job,
    Organization,
    Project,
    Webhook,
)
from core.values import check_name, check_storable, storable

Row = TypeVar("Row", Agent, ApiKey, Category, CloudCredential, Dataset, Execution, Job, Project, Webhook)


class Repository(Generic[Row]):
    """Rows of one noun that belong to one organization."""

    row: ClassVar[Any]
    noun: ClassVar[str]
    fields: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, session: Session, organization_id: str) -> None:
        self.session = session
        self.organization_id = organization_id

    def _own(self) -> Select[tuple[Row]]:
        return select(self.row).where(self.row.organization_id == self.organization_id)

    def _one(self, query: Select[tuple[Row]], by: str = "id") -> Row:
        found = self.session.scalar(query)
        if found is None:
            raise self._unknown(by)
        return found

    def _found(self, query: Select[tuple[Row]], values: Mapping[str, Any]) -> Row:
        """The row of a statement that is made once, which costs less than the reading, with these values."""
        found = self.session.scalar(query, values)
        if found is None:
            raise self._unknown()
        return found

    def _unknown(self, by: str = "id") -> NotFound:
        return NotFound(f"There is no {self.noun} with this {by}.")

    def _by_id(self, row_id: str) -> Row:
        if not storable(row_id):
            raise self._unknown()
        return self._one(self._own().where(self.row.id == row_id))

    def _page(self, query: Select[tuple[Row]], limit: int | None, after: str | None) -> Sequence[Row]:
        """Oldest first; `after` is the id of the last row of the page before."""
        if after is not None:
            query = query.where(self.row.id > after)
        return list(self.session.scalars(query.order_by(self.row.id).limit(limit)))

    def _grouped(self, query: Select[Any], values: Mapping[str, Any] | None = None) -> Mapping[str, Sequence[Any]]:
        """The second column's values, in order, under each value of the first."""
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for group, value in self.session.execute(query, values):
            groups[group].append(value)
        return groups

    def _merge(self, row: Row, changes: Mapping[str, Any]) -> Row:
        """Sets the fields of `changes`, which `checked` has let through, and leaves the others as they are."""
        for field, value in changes.items():
            setattr(row, field, value)
        self.session.flush()
        return row


def checked(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The known fields that have a value; BadInput where one cannot be stored."""
    known = {field: value for field, value in values.items() if field in fields and value is not None}
    if "name" in known:
        check_name(known["name"])
    for field, value in known.items():
        check_storable(field, value)
    return known


def lock_organization(session: Session, organization_id: str) -> None:
    """Lets one transaction at a time choose names or publish in an organization; SQLite's writers are alone anyway."""
    query = select(Organization.id).where(Organization.id == organization_id)
    session.execute(query.with_for_update(key_share=True))
