"""Changes of the records that Dagster draws, for the code server."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, now


class DefinitionChange(Base):
    """One record of which Dagster shows something else since then; ids only grow, also after old rows are deleted."""

    __tablename__ = "definition_changes"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    kind: Mapped[str]
    record_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)
