"""Trainings of models, and the files that were converted for them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Owned, now


class Training(Owned):
    """A training at a provider, or by the operator's own trainer.

    `due_at` is when the trainer process turns to it next; with `stop_pending` the provider does not know yet that it
    was cancelled. `sealed_access` has the encrypted fields of the credential until the provider has ended the job.
    `files` are the provider's ids of the files that were sent, `result` is the trained model's name there. The cost is
    in millionths of the currency.
    """

    __tablename__ = "trainings"
    __table_args__ = (
        Index("ix_trainings_state_due_at", "state", "due_at"),
        Index("ix_trainings_completed", "organization_id", "completed_at"),
    )
    provider: Mapped[str] = mapped_column(String(32))
    model: Mapped[str]
    state: Mapped[str] = mapped_column(String(16), default="PENDING")
    hyperparameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    sources: Mapped[dict[str, Any]] = mapped_column(default=dict)
    files: Mapped[dict[str, Any]] = mapped_column(default=dict)
    credential_id: Mapped[str | None] = mapped_column(String(36))
    sealed_access: Mapped[str | None] = mapped_column(Text)
    provider_job_id: Mapped[str | None]
    result: Mapped[str | None] = mapped_column(Text)
    progress: Mapped[dict[str, Any]] = mapped_column(default=dict)
    error: Mapped[str | None] = mapped_column(Text)
    error_code: Mapped[str | None]
    stop_pending: Mapped[bool] = mapped_column(default=False)
    attempts: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    failing_since: Mapped[datetime | None]
    due_at: Mapped[datetime] = mapped_column(default=now)
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    seconds: Mapped[int | None] = mapped_column(BigInteger)
    tokens: Mapped[int | None] = mapped_column(BigInteger)
    cost: Mapped[int | None] = mapped_column(BigInteger)
    currency: Mapped[str | None]


class TrainingDataset(Owned):
    """A file or dataset that was converted to training and validation examples, and sent to a provider."""

    __tablename__ = "training_datasets"
    __table_args__ = (UniqueConstraint("organization_id", "provider", "path"),)
    provider: Mapped[str] = mapped_column(String(32))
    path: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    files: Mapped[dict[str, Any]] = mapped_column(default=dict)
    examples: Mapped[int] = mapped_column(BigInteger)
