"""Base of the repositories: queries that are limited to one organization, pages, locks and checks of fields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from pydantic.alias_generators import to_camel
from sqlalchemy import ColumnElement, Dialect, Select, String, TypeDecorator, cast, func, select, type_coerce
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.errors import Conflict, NotFound
from core.infra.database import Database
from core.infra.preconditions import check_etag
from core.infra.validation import check_name, check_storable, is_storable
from core.tables import Base, Organization, Project

Row = TypeVar("Row", bound=Base)


class Repository(Generic[Row]):
    """Rows of one table that belong to one organization; rows of other organizations are unknown (NotFound)."""

    row: ClassVar[Any]
    noun: ClassVar[str]
    fields: ClassVar[frozenset[str]] = frozenset()
    clearable: ClassVar[frozenset[str]] = frozenset()  # optional ids, times and schedules: see `validate_fields`

    def __init__(self, session: Session, organization_id: str) -> None:
        self.session = session
        self.organization_id = organization_id

    @classmethod
    def _fetch(cls, database: Database, statement: Select[Any], **ids: str) -> tuple[Any, ...]:
        """Run a statement of the row's columns and further ones; return the row, not bound to a session, and the rest.

        The parameters are the caller's organization and the ids in the path.
        """
        found = database.fetch_one(statement, ids) if all(map(is_storable, ids.values())) else None
        if found is None:
            raise cls._not_found()
        values = dict(found)
        columns = {column.key: values.pop(column.key) for column in cls.row.__table__.columns}
        return cls.row(**columns), *values.values()

    def lock(self, row: Row, if_match: Collection[str] = ()) -> Row:
        """Lock the row until the transaction ends; raise PreconditionFailed unless it has one of the ETags."""
        lock_row(self.session, self.organization_id, row, if_match)
        return row

    def _select(self) -> Select[tuple[Row]]:
        """Select the organization's rows; every query of a repository starts here."""
        return select(self.row).where(self.row.organization_id == self.organization_id)

    def _fetch_by_id(self, row_id: str) -> Row:
        if not is_storable(row_id):
            raise self._not_found()
        return self._fetch_one(self._select().where(self.row.id == row_id))

    def _fetch_one(self, query: Select[tuple[Row]], by: str = "id") -> Row:
        found = self.session.scalar(query)
        if found is None:
            raise self._not_found(by)
        return found

    def _fetch_page(self, query: Select[tuple[Row]], limit: int | None, after: str | None) -> Sequence[Row]:
        return self.session.scalars(self._limit_to_page(query, limit, after)).all()

    def _limit_to_page(self, query: Select[Any], limit: int | None, after: str | None) -> Select[Any]:
        """Order by id, oldest first, beginning behind the row with the id `after`."""
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
        """Set fields that `validate_fields` has checked."""
        for field, value in changes.items():
            setattr(row, field, value)
        self.session.flush()
        return row

    @classmethod
    def _not_found(cls, by: str = "id") -> NotFound:
        return NotFound(f"There is no {cls.noun} with this {by}.")


class _IdList(TypeDecorator[list[str]]):
    """Ids that SQL has joined by commas, as a list ordered from oldest to newest."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> list[str]:
        return sorted(value.split(","), key=lambda each: (len(each), each)) if value else []


def aggregate_ids(
    column: InstrumentedAttribute[Any], condition: ColumnElement[bool], of: type[Base], limit: int | None = None
) -> ColumnElement[list[str]]:
    """Return a column with the ids of the rows related to `of`, so that one statement reads a row with its relations.

    With a `limit` they are the newest so many.
    """
    newest = select(column.label("id")).where(condition).order_by(column.desc()).limit(limit).correlate(of).subquery()
    return type_coerce(select(func.aggregate_strings(cast(newest.c.id, String), ",")).scalar_subquery(), _IdList)


def validate_fields(
    values: Mapping[str, Any], fields: Collection[str], clearable: Collection[str] = ()
) -> dict[str, Any]:
    """Return the known fields that have a value; raise BadInput when one cannot be stored.

    An empty text in a clearable field is None, which removes the stored value.
    """
    known = {field: value for field, value in values.items() if field in fields and value is not None}
    if "name" in known:
        check_name(known["name"])
    for field, value in known.items():
        check_storable(to_camel(field), value)
    return {field: None if field in clearable and value == "" else value for field, value in known.items()}


def lock_row(session: Session, organization_id: str, row: Base, if_match: Collection[str] = ()) -> None:
    """Lock a row until the transaction ends and load its current state.

    Raise Conflict for a deleted row, PreconditionFailed unless its ETag is expected.
    """
    lock_organization(session, organization_id)
    try:
        session.refresh(row, with_for_update={"key_share": True})
    except InvalidRequestError as error:
        raise Conflict("This record was removed at the same time.") from error
    check_etag(row, if_match)


def lock_organization(session: Session, organization_id: str) -> None:
    """Serialize transactions that choose names or publish in an organization; SQLite has one writer anyway."""
    query = select(Organization.id).where(Organization.id == organization_id)
    session.execute(query.with_for_update(key_share=True))


def lock_project(session: Session, project_id: str) -> None:
    """Let only one transaction at a time change the states of a project's executions.

    On SQLite this locks nothing more: its writers are serialized anyway.
    """
    session.execute(select(Project.id).where(Project.id == project_id).with_for_update(key_share=True))
