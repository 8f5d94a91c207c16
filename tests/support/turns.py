"""Turns of tasks to start a request at a host with a delay, as the limits of a run count them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from pipelines.coordination.host_limits import HostLimits, Task


@dataclass
class Turns:
    """The `delays` of hosts and the requests that were `started` in turn, by origin."""

    delays: dict[str, float] = field(default_factory=dict[str, float])
    started: Counter[str] = field(default_factory=Counter[str])


def record_turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    turns = Turns()
    open_, release = HostLimits.open, HostLimits.release

    def record_open(limits: HostLimits, origin: str, delay: float) -> None:
        turns.delays[origin] = delay
        open_(limits, origin, delay)

    def record_release(limits: HostLimits, task: Task, origin: str, slots: int, turn: bool = False) -> None:
        host = limits._hosts[origin]  # pyright: ignore[reportPrivateUsage]
        turns.started[origin] += turn and not slots and host.turn is task  # with a slot, the turn was not used
        release(limits, task, origin, slots, turn)

    monkeypatch.setattr(HostLimits, "open", record_open)
    monkeypatch.setattr(HostLimits, "release", record_release)
    return turns
