"""Organizations, their API keys and people, the sessions of these in the console, and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, Owned, new_id, now


class Organization(Base):
    __tablename__ = "organizations"
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(unique=True)
    slug: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(default=now)


class ApiKey(Owned):
    __tablename__ = "api_keys"
    name: Mapped[str]
    key_hash: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[list[str]]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    person_id: Mapped[str | None] = mapped_column(String(36), index=True)  # of a personal key


class Person(Owned):
    """Someone who has signed in by a provider. The record of a removed person stays, and bars the way back."""

    __tablename__ = "people"
    __table_args__ = (UniqueConstraint("issuer", "subject"),)
    issuer: Mapped[str]
    subject: Mapped[str]
    name: Mapped[str]
    email: Mapped[str | None]
    role: Mapped[str]
    role_from_provider: Mapped[bool]
    last_seen_at: Mapped[datetime | None]
    rights_changed_at: Mapped[datetime] = mapped_column(default=now)  # from then on, no cached right counts
    removed_at: Mapped[datetime | None]


class ConsoleSession(Base):
    """A session of the console: a key or a person, whom the token of a cookie stands for. Only its hash is stored."""

    __tablename__ = "console_sessions"
    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    key_id: Mapped[str | None] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), index=True)
    person_id: Mapped[str | None] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime]
    provider_session_hash: Mapped[str | None] = mapped_column(String(64), index=True)
    id_token: Mapped[str | None]  # encrypted; names the session to the provider at sign-out


class ProviderToken(Base):
    """A logout token of the provider that has been followed, by the hash of its id: it counts once."""

    __tablename__ = "provider_tokens"
    id_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    expires_at: Mapped[datetime]


class AuditEntry(Base):
    """An operation that somebody called: who, what, on which records, and the status of the answer."""

    __tablename__ = "audit_entries"
    __table_args__ = (Index("ix_audit_entries_organization", "organization_id", "id"),)
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    created_at: Mapped[datetime] = mapped_column(default=now)
    actor: Mapped[str]
    person_id: Mapped[str | None] = mapped_column(String(36))
    key_id: Mapped[str | None] = mapped_column(String(36))
    action: Mapped[str]
    object: Mapped[dict[str, Any]]
    status: Mapped[int]
