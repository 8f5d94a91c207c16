"""The instances of the service that work on the database."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, new_id


class Instance(Base):
    """One `spindle up` on PostgreSQL; its lease lasts for some seconds after `seen_at`, by the database's clock."""

    __tablename__ = "instances"
    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    version: Mapped[str]
    leads: Mapped[bool]
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]


class Installation(Base):
    """The one row of its table. The marker in the storage has the same id, and `token` or `previous_token`."""

    __tablename__ = "installation"
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    key_id: Mapped[str]
    storage: Mapped[str] = mapped_column(Text)
    token: Mapped[str] = mapped_column(String(32))
    previous_token: Mapped[str | None] = mapped_column(String(32))
