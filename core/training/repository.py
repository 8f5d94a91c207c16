"""Records of trainings, and their states.

PENDING -> RUNNING -> COMPLETED | FAILED | CANCELLED. Every change is one conditional UPDATE, so that a cancel and the
end of the provider's job cannot overwrite each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session

from core.infra.database import execute_update
from core.infra.encryption import AssociatedData
from core.infra.repository import Repository
from core.tables import Training, TrainingDataset, now
from core.tables.states import State

UNFINISHED = (State.PENDING, State.RUNNING)
CANCELLED = "The training was cancelled."


class TrainingRepository(Repository[Training]):
    """The trainings of one organization."""

    row = Training
    noun = "training"

    def get(self, provider: str, training_id: str) -> Training:
        """Return a training of this provider. Raises NotFound."""
        training = self._fetch_by_id(training_id)
        if training.provider != provider:
            raise self._not_found()
        return training

    def create(self, training: Training) -> Training:
        self.session.add(training)
        self.session.flush()
        return training

    def cancel(self, training: Training) -> bool:
        """Return False for a training that has ended before."""
        values = {"state": State.CANCELLED, "error": CANCELLED, "error_code": "training-cancelled"}
        return end_training(self.session, training.id, {**values, "stop_pending": True, "due_at": now()})

    def count_unfinished(self) -> int:
        query = select(func.count()).where(
            Training.organization_id == self.organization_id, Training.state.in_(UNFINISHED)
        )
        return self.session.scalar(query) or 0

    def find_dataset(self, provider: str, path: str) -> TrainingDataset | None:
        """Return the files that were converted from this path for a provider."""
        query = select(TrainingDataset).where(TrainingDataset.organization_id == self.organization_id)
        return self.session.scalar(query.where(TrainingDataset.provider == provider, TrainingDataset.path == path))

    def measure_seconds(self, provider: str, model: str) -> float | None:
        """Return the mean time of the completed trainings of a model."""
        query = select(func.avg(Training.seconds)).where(Training.organization_id == self.organization_id)
        same = (Training.provider == provider, Training.model == model, Training.state == State.COMPLETED)
        found = self.session.scalar(query.where(*same))
        return None if found is None else float(found)


def list_due(session: Session, at: datetime) -> Sequence[Training]:
    """Return trainings of all organizations that the trainer process turns to now, the oldest first."""
    query = select(Training).where(_is_unfinished(), Training.due_at <= at)
    return session.scalars(query.order_by(Training.due_at, Training.id)).all()


def has_unfinished(session: Session) -> bool:
    """Return whether the trainer process has anything to do, now or later."""
    return session.scalar(select(Training.id).where(_is_unfinished()).limit(1)) is not None


def _is_unfinished() -> ColumnElement[bool]:
    return or_(Training.state.in_(UNFINISHED), Training.stop_pending)


def find_next(session: Session, provider: str) -> str | None:
    """Return the id of the training that begins next where they run one at a time; None while one runs.

    Organizations take turns: that whose last one began the longest ago is next, with its oldest.
    """
    of_provider = Training.provider == provider
    if session.scalar(select(Training.id).where(of_provider, Training.attempts > 0, _is_unfinished()).limit(1)):
        return None
    last = (
        select(Training.organization_id, func.max(Training.started_at).label("at"))
        .where(of_provider)
        .group_by(Training.organization_id)
        .subquery()
    )
    waiting = select(Training.id).join(last, last.c.organization_id == Training.organization_id)
    waiting = waiting.where(of_provider, Training.attempts == 0, Training.state.in_(UNFINISHED))
    return session.scalar(waiting.order_by(last.c.at.nulls_first(), Training.created_at, Training.id).limit(1))


def update_training(session: Session, training_id: str, values: Mapping[str, Any]) -> bool:
    """Return False for a training that has ended."""
    statement = update(Training).where(Training.id == training_id, Training.state.in_(UNFINISHED))
    return execute_update(session, statement.values(**values)) == 1


def end_training(session: Session, training_id: str, values: Mapping[str, Any]) -> bool:
    """Return False for a training that has ended before."""
    return update_training(session, training_id, {"completed_at": now(), **values})


def note_stopped(session: Session, training_id: str, values: Mapping[str, Any]) -> None:
    """Write facts about a cancelled training's job at the provider."""
    execute_update(session, update(Training).where(Training.id == training_id, Training.stop_pending).values(**values))


def bind_access(training: Training) -> AssociatedData:
    return AssociatedData(training.organization_id, training.id, "access")
