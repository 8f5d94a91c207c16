"""Queries that run in the background."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Owned, now


class StoredQuery(Owned):
    """A query whose rows become a file of the storage.

    The process that runs it writes `heartbeat_at`; a query without one has lost its process. The record and the file
    are deleted at `expires_at`.
    """

    __tablename__ = "stored_queries"
    __table_args__ = (
        Index("ix_stored_queries_state", "state", "heartbeat_at"),
        Index("ix_stored_queries_expires", "expires_at"),
    )
    sql: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16), default="PENDING")
    progress: Mapped[float | None]
    columns: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    row_count: Mapped[int | None] = mapped_column(BigInteger)
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    error: Mapped[str | None] = mapped_column(Text)
    error_code: Mapped[str | None]
    heartbeat_at: Mapped[datetime] = mapped_column(default=now)
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
