"""Rows of generic tables, whose names users choose."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, new_id, now


class GenericTableRow(Base):
    """A JSON document, stored as the text of its answers; `size_bytes` is that text's size in UTF-8."""

    __tablename__ = "records"
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    table_name: Mapped[str] = mapped_column(String(64), primary_key=True)
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    document: Mapped[str] = mapped_column(Text)
    size_bytes: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)
