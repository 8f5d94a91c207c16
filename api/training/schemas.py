"""Trainings as JSON."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from api.kit.schemas import Record
from core.infra.validation import replace_unstorable
from core.tables import Training
from core.training.estimates import CURRENCY, Estimate
from core.training.providers.protocol import Progress
from core.training.service import ProviderRecord, TrainingFacts


class ModelRecord(Record):
    id: str
    """Name of the model, as `model` of a training."""
    owner: str | None
    """Whose model it is, as far as the provider says it."""
    trainable: bool | None
    """Whether it can be trained further; null where the provider does not say it."""


class TrainingStarted(Record):
    job_id: str
    """Id of the training."""


class TrainingProgress(Record):
    percent: float | None
    """Share of the steps that are done, from 0 to 100; null where it is not known."""
    step: int | None
    """Number of steps that are done."""
    steps: int | None
    """Number of all steps."""
    loss: float | None
    """The last loss; null where it is not known."""
    message: str
    """The last message of the provider."""


class TrainingStatus(Record):
    status: Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
    """State of the training."""
    progress: TrainingProgress
    """How far the training is."""
    model: str
    """Name of the model that is trained further."""
    result: str | None
    """Name of the trained model at the provider."""
    error: str | None
    """Why it has failed, in the words of the provider."""
    error_code: str | None
    """Stable name of the failure."""
    tokens: int | None
    """Tokens that the provider has charged."""
    cost: float | None
    """What it has cost; null where that is not known."""
    currency: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class TrainingLog(Record):
    logs: list[str]
    """Lines of the log, oldest first."""


class CostEstimate(Record):
    estimated_cost: float
    """What the training would cost."""
    currency: str
    estimated: bool
    """False where the provider has counted the tokens itself."""
    tokens: int | None
    """Tokens of all epochs together; null where the price does not depend on them."""
    examples: int | None
    """Number of examples in the data."""
    epochs: int | None
    """Number of passes over the data that the estimate assumes."""
    source: str | None
    """Where the price comes from."""
    price_date: date | None
    """Date of the price."""


class TrainingLimits(Record):
    minutes: float
    """Longest time of a local training."""
    memory_gigabytes: float
    """Largest memory of a local training."""
    concurrent: int
    """Local trainings that run at the same time; others wait."""


class TrainingInfo(Record):
    providers: list[ProviderRecord]
    """The providers, and whether the organization can train there."""
    local_training: bool
    """Whether there is a local trainer."""
    active_jobs: int
    """Number of the organization's trainings that have not ended."""
    limits: TrainingLimits
    """Limits of local trainings."""


class TrainingHealth(Record):
    status: Literal["UP"] = "UP"
    """`UP`; another state is answered with 503."""
    local_training: bool
    """Whether there is a local trainer."""


def build_training_status(training: Training) -> TrainingStatus:
    progress = {**Progress().to_json(), **replace_unstorable(training.progress)}
    return TrainingStatus.from_row(
        training,
        status=training.state,
        progress=TrainingProgress(**progress),
        cost=None if training.cost is None else training.cost / 1e6,
    )


def build_cost_estimate(estimate: Estimate) -> CostEstimate:
    return CostEstimate(
        estimated_cost=round(float(estimate.cost), 6),
        currency=CURRENCY,
        estimated=estimate.estimated,
        tokens=estimate.tokens,
        examples=estimate.examples,
        epochs=estimate.epochs,
        source=estimate.source,
        price_date=estimate.price_date,
    )


def build_training_info(facts: TrainingFacts) -> TrainingInfo:
    return TrainingInfo(
        providers=[*facts.providers],
        local_training=facts.local_training,
        active_jobs=facts.active_jobs,
        limits=TrainingLimits(minutes=facts.minutes, memory_gigabytes=facts.memory_gigabytes, concurrent=1),
    )
