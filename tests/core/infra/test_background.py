"""Processes in the background tell of an outage when it begins and when it is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from core.errors import BadInput, Unavailable
from core.infra.background import OutageLog, create_shutdown_event


def raising(name: str, error: Exception | None) -> Callable[[], None]:
    def step() -> None:
        if error is not None:
            raise error

    step.__name__ = name
    return step


def test_an_outage_and_its_end_are_each_logged_once() -> None:
    outages, away = OutageLog(), Unavailable("The database is away.")
    with capture_logs() as lines:
        for _ in range(20):
            assert not outages.run_step(raising("launch", away))
            assert not outages.run_step(raising("sweep", away))
        assert outages.run_step(raising("launch", None))
        assert [line["event"] for line in lines] == ["waiting"]
        for _ in range(3):
            assert outages.run_step(raising("sweep", None))
    assert [line["event"] for line in lines] == ["waiting", "resumed"]
    assert lines[1]["after"] == lines[0]["reason"] == "The database is away."
    assert lines[1]["seconds"] >= 0


def test_reasons_are_distinguished() -> None:
    outages, database, dagster = OutageLog(), Unavailable("No database."), Unavailable("No Dagster.")
    with capture_logs() as lines:
        for error in (database, database, dagster, None, database, None):
            outages.run_step(raising("launch", error))
    told = [(line["event"], line.get("reason") or line.get("after")) for line in lines]
    first, second = (("waiting", "No database."), ("resumed", "No database.")), ("waiting", "No Dagster.")
    assert told == [*first, second, ("resumed", "No Dagster."), *first]


def test_any_other_error_is_logged_each_time_and_ends_the_outage() -> None:
    outages = OutageLog()
    with capture_logs() as lines:
        outages.run_step(raising("launch", Unavailable("Away.")))
        for _ in range(2):
            assert outages.run_step(raising("launch", BadInput("Wrong.")))
    assert [line["event"] for line in lines] == ["waiting", "failed", "resumed", "failed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        stop = create_shutdown_event()
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(30)
    finally:
        for each, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(each, handler)
