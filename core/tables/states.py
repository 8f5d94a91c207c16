"""The states of an execution."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The stored state of an execution."""

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
        """Whether it counts against the project's limit of concurrent executions."""
        return self in (State.PENDING, State.RUNNING)

    @property
    def public(self) -> str:
        """One of the four states that the REST specification has: PENDING, RUNNING, COMPLETED and FAILED."""
        return {State.QUEUED: State.PENDING, State.CANCELLED: State.FAILED}.get(self, self)


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
