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
    bindparam,
    cast,
    func,
    select,
    type_coerce,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.errors import NotFound
from core.infra.database import Database
from core.infra.validation import check_name, check_storable, storable
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
    PythonExtension,
    Webhook,
)

Row = TypeVar(
    "Row", Agent, ApiKey, Category, CloudCredential, Dataset, Execution, Job, Project, PythonExtension, Webhook
)


Ids = tuple[str, ...]


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


def among(column: InstrumentedAttribute[Any]) -> ColumnElement[bool]:
    """That the column is one of the parameter `ids`."""
    return column.in_(bindparam("ids", expanding=True))


def _padded(ids: list[str]) -> list[str]:
    """With the last one repeated up to a power of two: each number of ids is another statement, that is prepared."""
    return ids + ids[-1:] * ((1 << (len(ids) - 1).bit_length()) - len(ids))


class Repository(Generic[Row]):
    """Rows of one noun that belong to one organization.

    `shown` selects what answers show of them: their columns, and what other tables tell; `shown_by_ids` is those whose
    ids are among its parameter `ids`. `named_by` are the columns that a caller has to know to read one, `id` the last.
    """

    row: ClassVar[Any]
    noun: ClassVar[str]
    shown: ClassVar[Select[Any]]
    shown_by_ids: ClassVar[Select[Any]]
    named_by: ClassVar[tuple[str, ...]] = ("organization_id", "id")
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

    @classmethod
    def _unknown(cls, by: str = "id") -> NotFound:
        return NotFound(f"There is no {cls.noun} with this {by}.")

    @classmethod
    def read(cls, database: Database, wanted: Collection[Ids]) -> Mapping[Ids, RowMapping]:
        """In one statement the records by their ids, which are values of `named_by`; unknown ones are left out."""
        ids = [each[-1] for each in wanted if storable("".join(each))]
        rows = database.all(cls.shown_by_ids, {"ids": _padded(ids)}) if ids else ()
        found = {tuple(row[name] for name in cls.named_by): row for row in rows}
        return {each: found[each] for each in wanted if each in found}

    @classmethod
    def known(cls, record: RowMapping | None) -> RowMapping:
        """The record; raises NotFound where there is none."""
        if record is None:
            raise cls._unknown()
        return record

    def record(self, row: Row) -> RowMapping:
        """The record of a row as this transaction sees it."""
        return self.session.execute(self.shown.where(self.row.id == row.id)).mappings().one()

    def _records(self, *conditions: ColumnElement[bool], limit: int | None, after: str | None) -> Sequence[RowMapping]:
        query = self.shown.where(self.row.organization_id == self.organization_id, *conditions)
        return self.session.execute(self._paged(query, limit, after)).mappings().all()

    def _by_id(self, row_id: str) -> Row:
        if not storable(row_id):
            raise self._unknown()
        return self._one(self._own().where(self.row.id == row_id))

    def _page(self, query: Select[tuple[Row]], limit: int | None, after: str | None) -> Sequence[Row]:
        return list(self.session.scalars(self._paged(query, limit, after)))

    def _paged(self, query: Select[Any], limit: int | None, after: str | None) -> Select[Any]:
        """Oldest first; `after` is the id of the last row of the page before."""
        if after is not None:
            query = query.where(self.row.id > after)
        return query.order_by(self.row.id).limit(limit)

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
