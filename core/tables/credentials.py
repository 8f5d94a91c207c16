"""Access to providers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, new_id, now


class CloudCredential(Base):
    """Access to a provider; global when it has no organization. `secrets` has the encrypted secret fields."""

    __tablename__ = "cloud_credentials"
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"), index=True)
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    provider: Mapped[str]
    enabled: Mapped[bool] = mapped_column(default=True)
    secrets: Mapped[dict[str, Any]] = mapped_column(default=dict)
    region: Mapped[str | None] = mapped_column(Text)
    endpoint: Mapped[str | None] = mapped_column(Text)
    engine_id: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)
