"""The state machine of an execution. What has ended absorbs every event but a retry, which begins a new attempt."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    QUEUED = "QUEUED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL

    @property
    def holds_slot(self) -> bool:
        """Whether it counts among the executions that a project may have at once."""
        return self in (State.PENDING, State.RUNNING)

    @property
    def shown(self) -> str:
        """The specification knows four states: waiting is pending, and a cancelled execution failed with a message."""
        return {State.QUEUED: State.PENDING, State.CANCELLED: State.FAILED}.get(self, self)


class Event(StrEnum):
    ADMIT = "ADMIT"
    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    CANCEL = "CANCEL"
    RETRY = "RETRY"
    REQUEUE = "REQUEUE"  # a retry that waits for a slot


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.QUEUED, Event.ADMIT): State.PENDING,
    (State.QUEUED, Event.FAIL): State.FAILED,
    (State.QUEUED, Event.CANCEL): State.CANCELLED,
    (State.PENDING, Event.START): State.RUNNING,
    (State.PENDING, Event.COMPLETE): State.COMPLETED,
    (State.PENDING, Event.FAIL): State.FAILED,
    (State.PENDING, Event.CANCEL): State.CANCELLED,
    (State.RUNNING, Event.COMPLETE): State.COMPLETED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.CANCEL): State.CANCELLED,
    (State.FAILED, Event.RETRY): State.PENDING,
    (State.CANCELLED, Event.RETRY): State.PENDING,
    (State.FAILED, Event.REQUEUE): State.QUEUED,
    (State.CANCELLED, Event.REQUEUE): State.QUEUED,
}


def next_state(state: State, event: Event) -> State | None:
    """The state that `event` leads to, None where it changes nothing."""
    return TRANSITIONS.get((state, event))


def sources(event: Event) -> tuple[State, ...]:
    """The states that `event` leads out of."""
    return tuple(state for state, by in TRANSITIONS if by is event)
