"""The events of a training, made of its record: a change of it is an event, which the next one replaces."""

from __future__ import annotations

from api.training.schemas import build_training_status
from core.definitions.identity.api_keys import Identity
from core.lifecycle.events.service import Event, EventBatch
from core.lifecycle.executions.events import PROGRESS, STATE
from core.tables.states import State
from core.training.service import TrainingService


def read_events(
    trainings: TrainingService, caller: Identity, provider: str, training_id: str, after: int | None
) -> EventBatch:
    """Return the newest change of a training as an event, unless its id is `after`.

    Ids are times of changes in microseconds, so they ascend, and a reconnect continues with what has changed since.
    """
    with trainings.database.read() as session:
        training = trainings.get(session, caller, provider, training_id)
    id_, ended = int(training.updated_at.timestamp() * 1_000_000), State(training.state).terminal
    if after is not None and id_ <= after:
        return EventBatch((), more=False, ended=ended)
    kind = PROGRESS if training.state == State.RUNNING else STATE
    data = build_training_status(training).model_dump(mode="json", by_alias=True)
    return EventBatch([Event(id_, kind, data)], more=False, ended=ended)
