"""Values that many rows have in common: a cleanup stores them once, and takes them out of rows that change no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ForeignKey, String, event, select
from sqlalchemy.orm import Mapped, column_property, declared_attr, mapped_column
from sqlalchemy.orm.attributes import set_committed_value

from core.tables.base import Base


class SharedValues(Base):
    """Values by the names of their columns; they go with the job or dataset whose rows have them, if one is named."""

    __tablename__ = "shared_values"
    __table_args__ = ({"sqlite_autoincrement": True},)  # an id that a lost row may name is not given again
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"), index=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    content: Mapped[dict[str, Any]]


class Sharing:
    """A row that may have a part of its values in SharedValues. Loading it as an object fills them in.

    `shared_id` is no foreign key: that would need an index with an entry of each row.
    """

    shared_id: Mapped[int | None]

    @declared_attr
    @classmethod
    def shared(cls) -> Mapped[dict[str, Any] | None]:
        content = select(SharedValues.content).where(SharedValues.id == cls.shared_id)
        return column_property(content.correlate_except(SharedValues).scalar_subquery())


def fill_in(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values of a row with those of its column `shared`; of objects, a row has the rest of the names."""
    own = {name: value for name, value in values.items() if name != "shared"}
    for name, value in (values["shared"] or {}).items():
        if name in own:
            own[name] = {**value, **own[name]} if isinstance(value, dict) else value
    return own


@event.listens_for(Sharing, "load", propagate=True)
@event.listens_for(Sharing, "refresh", propagate=True)
def _fill_in(row: Sharing, *_context: object) -> None:
    loaded = row.__dict__
    if shared := loaded.get("shared"):
        filled = fill_in(loaded)
        for name in shared.keys() & loaded.keys():
            set_committed_value(row, name, filled[name])
