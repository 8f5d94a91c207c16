"""Writing of declared records in one transaction: rows that exist are changed where they differ, others created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic.alias_generators import to_camel
from sqlalchemy.orm import Session

from core.errors import BadInput, Conflict, SpindleError

Values = Mapping[str, Any]


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One changed field, by its name in JSON."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One record that was created, changed or deleted: the job `Shop/Books`."""

    action: Action
    kind: str
    name: str
    fields: tuple[FieldChange, ...] = ()


def name_field(name: str, value: Any) -> tuple[str, Any]:
    """Return a column as JSON names it, and its value."""
    return to_camel(name), value


@dataclass(slots=True)
class RecordWriter:
    """Writes rows and notes the changes.

    `reject` returns the error to raise for a record, by its kind and name, that cannot be written. `get_value` reads a
    column of a row, and `describe` returns a column's name and value for the changes.
    """

    session: Session
    reject: Callable[[str, str, SpindleError], SpindleError]
    get_value: Callable[[Any, str], Any] = getattr
    describe: Callable[[str, Any], tuple[str, Any]] = name_field
    changes: list[RecordChange] = field(default_factory=list[RecordChange])
    unchanged: int = 0

    def write(
        self,
        kind: str,
        name: str,
        row: Any,
        values: Values,
        create: Callable[[Values], Any],
        update: Callable[[str, Values], Any],
    ) -> Any:
        """Create the row, which the next flush inserts, or update the values that differ."""
        try:
            if row is None:
                self.changes.append(RecordChange(Action.CREATE, kind, name))
                created = create(values)
                self.session.add(created)
                return created
            before = {column: self.get_value(row, column) for column in values}
            different = {column: value for column, value in values.items() if value != before[column]}
            if not different:
                self.unchanged += 1
                return row
            fields = (self._describe_change(column, before[column], value) for column, value in different.items())
            self.changes.append(RecordChange(Action.CHANGE, kind, name, tuple(fields)))
            updated = update(row.id, different)
        except (BadInput, Conflict) as error:
            raise self.reject(kind, name, error) from error
        for column, value in different.items():
            if value is None:  # which an update ignores
                setattr(updated, column, None)
        self.session.flush()
        return updated

    def delete(self, kind: str, name: str, delete: Callable[[], None]) -> None:
        self.changes.append(RecordChange(Action.DELETE, kind, name))
        delete()

    def _describe_change(self, column: str, before: Any, after: Any) -> FieldChange:
        name, old = self.describe(column, before)
        return FieldChange(name, old, self.describe(column, after)[1])
