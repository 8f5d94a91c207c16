"""What the repositories share: every row is read through its organization, ids of others are unknown ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    Dialect,
    RowMapping,
    Select,
    String,
    TypeDecorator,
    cast,
    func,
    select,
    type_coerce,
)
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.errors import Conflict, NotFound
from core.infra.preconditions import check_etag
from core.infra.validation import check_name, check_storable, storable
from core.tables import (
    Agent,
    ApiKey,
    Base,
    Category,
    CloudCredential,
    Dataset,
    Execution,
    Job,
    Organization,
    Project,
    PythonExtension,
    Webhook,
)

Row = TypeVar(
    "Row", Agent, ApiKey, Category, CloudCredential, Dataset, Execution, Job, Project, PythonExtension, Webhook
)


class _Ids(TypeDecorator[list[str]]):
    """Ids that a statement gathers into one text, as a list, oldest first."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> list[str]:
        return sorted(value.split(","), key=lambda each: (len(each), each)) if value else []


def ids_where(column: InstrumentedAttribute[Any], condition: ColumnElement[bool]) -> ColumnElement[list[str]]:
    """All ids of other rows that meet the condition, as a column of the statement that reads a record."""
    gathered = select(func.aggregate_strings(cast(column, String), ",")).where(condition)
    return type_coerce(gathered.scalar_subquery(), _Ids)


class Repository(Generic[Row]):
    """Rows of one table that belong to one organization; rows of other organizations are unknown (NotFound)."""

    row: ClassVar[Any]
    noun: ClassVar[str]
    shown: ClassVar[Select[Any]]
    fields: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, session: Session, organization_id: str) -> None:
        self.session = session
        self.organization_id = organization_id

    def _select(self) -> Select[tuple[Row]]:
        return select(self.row).where(self.row.organization_id == self.organization_id)

    def _fetch_one(self, query: Select[tuple[Row]], by: str = "id") -> Row:
        found = self.session.scalar(query)
        if found is None:
            raise self._not_found(by)
        return found

    def _found(self, query: Select[tuple[Row]], values: Mapping[str, Any]) -> Row:
        """The row of a statement that is made once, which costs less than the reading, with these values."""
        found = self.session.scalar(query, values)
        if found is None:
            raise self._not_found()
        return found

    @classmethod
    def _not_found(cls, by: str = "id") -> NotFound:
        return NotFound(f"There is no {cls.noun} with this {by}.")

    def lock(self, row: Row, if_match: Collection[str] = ()) -> Row:
        """Lock the row until the transaction ends; raise PreconditionFailed unless it has one of the ETags."""
        lock_row(self.session, self.organization_id, row, if_match)
        return row

    def record(self, row: Row) -> RowMapping:
        """The record of a row as this transaction sees it."""
        return self.session.execute(self.shown.where(self.row.id == row.id)).mappings().one()

    def _records(self, *conditions: ColumnElement[bool], limit: int | None, after: str | None) -> Sequence[RowMapping]:
        query = self.shown.where(self.row.organization_id == self.organization_id, *conditions)
        return self.session.execute(self._paged(query, limit, after)).mappings().all()

    def _fetch_by_id(self, row_id: str) -> Row:
        if not storable(row_id):
            raise self._not_found()
        return self._fetch_one(self._select().where(self.row.id == row_id))

    def _fetch_page(self, query: Select[tuple[Row]], limit: int | None, after: str | None) -> Sequence[Row]:
        return list(self.session.scalars(self._paged(query, limit, after)))

    def _paged(self, query: Select[Any], limit: int | None, after: str | None) -> Select[Any]:
        """Oldest first; `after` is the id of the last row of the page before."""
        if after is not None:
            query = query.where(self.row.id > after)
        return query.order_by(self.row.id).limit(limit)

    def _group(self, query: Select[Any], values: Mapping[str, Any] | None = None) -> Mapping[str, Sequence[Any]]:
        """Run a query of two columns and collect the second's values under each value of the first."""
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for group, value in self.session.execute(query, values):
            groups[group].append(value)
        return groups

    def _apply(self, row: Row, changes: Mapping[str, Any]) -> Row:
        """Sets the fields of `changes`, which `checked` has let through, and leaves the others as they are."""
        for field, value in changes.items():
            setattr(row, field, value)
        self.session.flush()
        return row


def validate_fields(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The known fields that have a value; BadInput where one cannot be stored."""
    known = {field: value for field, value in values.items() if field in fields and value is not None}
    if "name" in known:
        check_name(known["name"])
    for field, value in known.items():
        check_storable(field, value)
    return known


def lock_row(session: Session, organization_id: str, row: Base, if_match: Collection[str] = ()) -> None:
    """Lock a row until the transaction ends and load its current state.

    Raise Conflict when it was deleted meanwhile, PreconditionFailed when it has none of the expected ETags.
    """
    lock_organization(session, organization_id)
    try:
        session.refresh(row, with_for_update={"key_share": True})
    except InvalidRequestError as error:
        raise Conflict("This record was removed at the same time.") from error
    check_etag(row, if_match)


def lock_organization(session: Session, organization_id: str) -> None:
    """Lets one transaction at a time choose names or publish in an organization; SQLite's writers are alone anyway."""
    query = select(Organization.id).where(Organization.id == organization_id)
    session.execute(query.with_for_update(key_share=True))
