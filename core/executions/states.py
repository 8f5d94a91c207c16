"""The state machine of an execution. Terminal states absorb every event."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL

    @property
    def shown(self) -> str:
        """The specification knows four states: a cancelled execution is a failed one with a message."""
        return State.FAILED if self is State.CANCELLED else self


class Event(StrEnum):
    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    CANCEL = "CANCEL"


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.PENDING, Event.START): State.RUNNING,
    (State.PENDING, Event.COMPLETE): State.COMPLETED,
    (State.PENDING, Event.FAIL): State.FAILED,
    (State.PENDING, Event.CANCEL): State.CANCELLED,
    (State.RUNNING, Event.COMPLETE): State.COMPLETED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.CANCEL): State.CANCELLED,
}


def next_state(state: State, event: Event) -> State | None:
    """The state that `event` leads to, None where it changes nothing."""
    return TRANSITIONS.get((state, event))


def target(event: Event) -> State:
    """The one state that `event` leads to, wherever it leads at all."""
    return next(state for (_, by), state in TRANSITIONS.items() if by is event)


def sources(event: Event) -> tuple[State, ...]:
    """The states that `event` leads out of: what a conditional UPDATE names."""
    return tuple(state for state, by in TRANSITIONS if by is event)
