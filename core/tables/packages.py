"""Packages of projects, exported or uploaded."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Owned


class Package(Owned):
    """An export or upload.

    An upload has neither digest (SHA-256) nor size until its content arrives; one that was rejected has the size 0 and
    no digest.
    """

    __tablename__ = "packages"
    __table_args__ = (Index(None, "organization_id", "kind", "digest"),)
    kind: Mapped[str]
    digest: Mapped[str | None] = mapped_column(String(64))
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
