"""The limit on requests that processes keep together."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.infra import request_rate
from core.infra.request_rate import BURST_SECONDS, MAX_WAIT_SECONDS, SharedRate

PER_SECOND = 10


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The sleeps, at a time that stands still."""
    sleeps: list[float] = []
    monkeypatch.setattr(request_rate.time, "time", lambda: 1_000_000.0)
    monkeypatch.setattr(request_rate.time, "sleep", sleeps.append)
    return sleeps


def test_requests_beyond_the_burst_wait_in_one_queue(tmp_path: Path, slept: list[float]) -> None:
    first, second = (SharedRate(tmp_path / "rate", PER_SECOND) for _ in range(2))
    burst = int(PER_SECOND * BURST_SECONDS)
    for _ in range(burst // 2):
        first.wait()
        second.wait()
    assert slept == [0.0] * burst
    for each in (first, second, first):
        each.wait()
    assert slept[-3:] == pytest.approx([0.0, 0.1, 0.2], abs=1e-6)


def test_a_clock_that_was_set_back_delays_a_minute_at_most(
    tmp_path: Path, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = SharedRate(tmp_path / "rate", PER_SECOND)
    rate.wait()
    monkeypatch.setattr(request_rate.time, "time", lambda: 1.0)
    rate.wait()
    assert slept[-1] == pytest.approx(MAX_WAIT_SECONDS - BURST_SECONDS)
