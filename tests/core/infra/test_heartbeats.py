"""Signs of life: loops that have not begun or do not move are named, and a pulse shows that a process runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import Unavailable
from core.infra import heartbeats
from core.infra.heartbeats import LOOPS, Heartbeats
from tests.support.service import wait_until


def test_loops_that_have_not_begun_or_do_not_move_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signs = Heartbeats(tmp_path)
    signs.beat("launcher")
    signs.check_loops()  # a process alone
    signs.reset()
    for loop in set(LOOPS) - {"daemon"}:
        signs.beat(loop)
    signs.check_loops()  # Dagster's daemon is that of another instance
    signs.lead()
    with pytest.raises(Unavailable, match=r"^Dagster's daemon has not started yet\.$"):
        signs.check_loops()
    signs.beat("daemon")
    signs.check_loops()
    signs.resign()
    signs.lead(takes_over=True)
    signs.check_loops()
    monkeypatch.setattr(heartbeats, "SILENT_SECONDS", -1)
    with pytest.raises(Unavailable, match=r"The launcher has not moved for 0 s\."):
        signs.check_loops()


def test_a_pulse_beats_as_long_as_its_process_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_SECONDS", 0.02)
    signs = Heartbeats(tmp_path)
    signs.reset()
    assert signs.read_pulse("api") == 0
    signs.start_pulse("api")
    wait_until(lambda: signs.read_pulse("api") > 0, 5)
    first = signs.read_pulse("api")
    wait_until(lambda: signs.read_pulse("api") > first, 5)
