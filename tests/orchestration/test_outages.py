"""What a run and the launcher do while something that they need does not answer."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.definitions.selector import InstigatorSelector
from dagster._core.remote_origin import (
    GrpcServerCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import TickData, TickStatus
from dagster_shared.error import SerializableErrorInfo
from sqlalchemy.exc import OperationalError

from core.errors import Conflict, Unavailable
from core.infra.instances import Membership
from core.infra.settings import Settings
from core.lifecycle.executions.reports import claim
from core.tables import Execution
from orchestration.client import DagsterClient
from orchestration.compute import create_compute
from orchestration.launcher import Launcher
from orchestration.outages import is_outage
from orchestration.run_drivers import Service
from orchestration.running_attempts import RunningAttempts
from orchestration.runs import RunHost
from orchestration.schedules import record_run_of_tick
from tests.support.service import PATIENCE_SECONDS, free_port, wait_until
from tests.support.shop import Shop

TICK = datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data", port=free_port(), lost_after_seconds=0.001)


def test_an_outage_is_found_behind_other_errors() -> None:
    away = OperationalError("SELECT 1", {}, Exception("server closed the connection"))
    assert is_outage(Unavailable("away"))
    assert is_outage(chain(RuntimeError("not stored"), away))
    assert not is_outage(chain(Conflict("other"), ValueError("bad")))
    assert not is_outage(None)


def make_launcher(shop: Shop, **changes: Any) -> Launcher:
    settings = shop.settings.replace(**changes)
    host = cast(RunHost, SimpleNamespace(threads=SimpleNamespace(is_alive=lambda _: False)))
    service = Service(settings, shop.database, create_compute(settings), RunningAttempts(shop.database))
    return Launcher(service, host, DagsterClient(free_port()), Membership(settings))


def get_state(shop: Shop, execution_id: str) -> str:
    with shop.database.read() as session:
        return session.get_one(Execution, execution_id).state


def chain(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_no_driver_is_lost_that_the_api_cannot_hear(shop: Shop) -> None:
    execution = shop.submit()
    assert claim(shop.database, execution.id, 1, "run")
    launcher = make_launcher(shop)
    launcher.fail_lost()
    assert get_state(shop, execution.id) == "PENDING"


def test_no_driver_is_lost_in_a_time_that_nobody_looked_at(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = shop.submit()
    assert claim(shop.database, execution.id, 1, "run")
    launcher = make_launcher(shop, lost_after_seconds=0.4)
    monkeypatch.setattr(launcher, "_is_api_up", lambda: True)
    launcher.fail_lost()
    time.sleep(0.5)  # an earlier step waited
    launcher.fail_lost()
    assert get_state(shop, execution.id) == "PENDING"

    def is_failed() -> bool:
        launcher.fail_lost()
        return get_state(shop, execution.id) == "FAILED"

    wait_until(is_failed, PATIENCE_SECONDS)


def test_a_start_is_not_lost_while_its_run_is_there(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = shop.submit()
    assert claim(shop.database, execution.id, 1, "run")
    launcher = make_launcher(shop, lost_after_seconds=0.4)
    monkeypatch.setattr(launcher, "_is_api_up", lambda: True)
    alive = {"run"}
    monkeypatch.setattr(launcher, "_runs", SimpleNamespace(threads=SimpleNamespace(is_alive=alive.__contains__)))
    for _ in range(10):
        time.sleep(0.1)
        launcher.fail_lost()
    assert get_state(shop, execution.id) == "PENDING"
    alive.clear()
    wait_until(lambda: launcher.fail_lost() or get_state(shop, execution.id) == "FAILED", PATIENCE_SECONDS)
    with shop.database.read() as session:
        assert "its process has ended" in (session.get_one(Execution, execution.id).error_message or "")


def test_the_database_was_away_shortly_after_the_service_came_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_unavailable() -> None:
        raise Unavailable("away")

    launcher = make_launcher(shop, lost_after_seconds=60)
    monkeypatch.setattr(launcher, "_is_api_up", lambda: True)
    launcher.fail_lost()
    monkeypatch.setattr(shop.database, "read", raise_unavailable)
    with pytest.raises(Unavailable):
        launcher.fail_lost()


@pytest.mark.long
def test_a_tick_whose_process_was_killed_shows_its_run(tmp_path: Path) -> None:
    repository = RemoteRepositoryOrigin(GrpcServerCodeLocationOrigin("127.0.0.1", 1, location_name="spindle"), "all")
    origin = RemoteInstigatorOrigin(repository, "shops")
    selector = InstigatorSelector(location_name="spindle", repository_name="all", name="shops")
    error = SerializableErrorInfo("The code server is gone.", [], None)
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.create_tick(
            TickData(
                origin.get_id(), "shops", InstigatorType.SCHEDULE, TickStatus.FAILURE, TICK.timestamp(),
                error=error, selector_id=selector.get_id(),
            )
        )  # fmt: skip
        assert record_run_of_tick(instance, repository, "shops", TICK, "run")
        tick = instance.get_tick(origin.get_id(), selector.get_id(), TICK.timestamp())
        assert (tick.status, tick.run_ids, tick.error) == (TickStatus.SUCCESS, ["run"], None)
