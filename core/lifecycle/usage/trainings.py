"""The usage of an organization's trainings: they belong to no project, and are summed up from their records."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.lifecycle.usage.periods import Period
from core.tables import Training


@dataclass(frozen=True, slots=True)
class TrainingUsage:
    """The trainings that ended in a period; the cost is in millionths of a US dollar, as far as it is known."""

    trainings: int = 0
    seconds: int = 0
    tokens: int = 0
    cost: int = 0


def sum_trainings(session: Session, organization_id: str, period: Period) -> TrainingUsage:
    """Sum up the trainings that ended in the period."""
    within = (Training.completed_at >= period.start, Training.completed_at < period.end)
    amounts = (Training.seconds, Training.tokens, Training.cost)
    query = select(func.count(), *map(func.sum, amounts)).where(Training.organization_id == organization_id, *within)
    return TrainingUsage(*(int(amount or 0) for amount in session.execute(query).one()))
