"""Packages of projects, exported or uploaded."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Owned


class Package(Owned):
    """An export or upload; an upload has no digest (SHA-256) until its content has arrived."""

    __tablename__ = "packages"
    __table_args__ = (Index(None, "organization_id", "kind", "digest"),)
    kind: Mapped[str]
    digest: Mapped[str | None] = mapped_column(String(64))
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
