"""The state machine of an execution: which trigger leads from which state to which.

Terminal states ignore every trigger but a retry, which begins a new attempt.
"""

from __future__ import annotations

from enum import StrEnum

from core.tables.states import State


class Trigger(StrEnum):
    """An operation that may change the state of an execution."""

    ADMIT = "ADMIT"  # a slot has become free for a queued execution
    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    CANCEL = "CANCEL"
    RETRY = "RETRY"
    REQUEUE = "REQUEUE"  # a retry that waits for a slot
    POSTPONE = "POSTPONE"  # an attempt failed, and its job's retries allow another one


TRANSITIONS: dict[tuple[State, Trigger], State] = {
    (State.QUEUED, Trigger.ADMIT): State.PENDING,
    (State.QUEUED, Trigger.FAIL): State.FAILED,
    (State.QUEUED, Trigger.CANCEL): State.CANCELLED,
    (State.PENDING, Trigger.START): State.RUNNING,
    (State.PENDING, Trigger.COMPLETE): State.COMPLETED,
    (State.PENDING, Trigger.FAIL): State.FAILED,
    (State.PENDING, Trigger.CANCEL): State.CANCELLED,
    (State.RUNNING, Trigger.COMPLETE): State.COMPLETED,
    (State.RUNNING, Trigger.FAIL): State.FAILED,
    (State.RUNNING, Trigger.CANCEL): State.CANCELLED,
    (State.FAILED, Trigger.RETRY): State.PENDING,
    (State.CANCELLED, Trigger.RETRY): State.PENDING,
    (State.FAILED, Trigger.REQUEUE): State.QUEUED,
    (State.CANCELLED, Trigger.REQUEUE): State.QUEUED,
    (State.PENDING, Trigger.POSTPONE): State.QUEUED,
    (State.RUNNING, Trigger.POSTPONE): State.QUEUED,
}


def get_next_state(state: State, trigger: Trigger) -> State | None:
    """Return the state that the trigger leads to, None where it changes nothing."""
    return TRANSITIONS.get((state, trigger))


def get_sources(trigger: Trigger) -> tuple[State, ...]:
    """Return the states that the trigger leads out of."""
    return tuple(state for state, each in TRANSITIONS if each is trigger)
