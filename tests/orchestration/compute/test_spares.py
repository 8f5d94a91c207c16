"""Spare drivers: taken by one execution each, replaced, and gone when nobody can take them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from stat import S_IMODE
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from core.infra.pidfile import read_alive_pid
from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec
from core.lifecycle.usage.overhead import sum_overhead
from core.lifecycle.usage.periods import Period
from core.tables import Execution, now
from driver.host_folder import HOST_FILE, SOCKET, HostSpec
from orchestration.compute import host_keeper
from orchestration.compute.capacity import count_spares
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.host import FORKS, PIDFILE
from orchestration.compute.host_keeper import HostKeeper
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import DriverSource
from tests.support.driver import await_end
from tests.support.libraries import needs_libraries
from tests.support.processes import descendants, running
from tests.support.service import CLONE, PATIENCE_SECONDS, wait_until
from tests.support.shop import Shop
from tests.support.spares import find_spares, get_pid, keep_spares, launch, make_spec, wait_for_spare

SECRET = "secret-of-one-organization"
KEEPER = """
import sys, threading
from pathlib import Path
from core.infra.settings import Settings
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.host_keeper import HostKeeper
settings = Settings(data=Path(sys.argv[1]), spark_master="local[1]", spark_driver_memory="512m", spare_drivers=1)
HostKeeper(settings, DriverQueue(None, lambda: 0)).run(threading.Event())
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(data=tmp_path / "data", spark_master="local[1]", spark_driver_memory="512m", spare_drivers=1)


def get_spare_pid(spare: Path) -> int:
    pid = read_alive_pid(spare / PIDFILE)
    assert pid is not None
    return pid


def list_folders(settings: Settings) -> list[str]:
    """The folders of drivers and spares, without that of the host of forks."""
    return [each.name for each in (settings.data / "scratch").iterdir() if not each.name.startswith(FORKS)]


def crawl(server: socket.socket, stage: str = "wget") -> str:
    url, options = f"http://127.0.0.1:{server.getsockname()[1]}/", "{robots: ignore, keepColumns: [_requestedUrl]}"
    return f"{{pipeline: [{{stage: {stage}, args: ['{url}']}}], spindle: {options}}}"


@pytest.mark.long
def test_a_ready_spare_that_serves_one_execution_is_replaced(settings: Settings, tmp_path: Path) -> None:
    compute = LocalCompute(settings)
    (tmp_path / "rows.csv").write_text(f"name,price\nbook,1\n{SECRET},2\n")
    pipeline = f"pipeline: [{{stage: load_csv, args: [{{path: '{tmp_path}/${{FILE}}', header: true}}]}}]"
    parameters = {"FILE": "rows.csv", "TOKEN": "${TOKEN}"}
    alone: dict[str, Any] = {"credentials": {"TOKEN": "id"}, "reuses_driver": False}
    spec = make_spec(settings, "first", pipeline, parameters=parameters, **alone)
    with keep_spares(compute):
        spare = wait_for_spare(settings.data, ready=True)
        assert S_IMODE((spare / SOCKET).stat().st_mode) == 0o600
        assert S_IMODE(spare.stat().st_mode) == 0o700
        pid = get_spare_pid(spare)
        tree = [pid, *descendants(pid)]
        assert len(tree) >= 3, "JVM and daemon of Python workers"
        assert {os.getpriority(os.PRIO_PROCESS, each) for each in tree} == {os.getpriority(os.PRIO_PROCESS, 0)}

        handle = launch(compute, spec, {"TOKEN": SECRET})
        assert get_pid(settings, handle) == pid
        assert list(compute.list()) == [handle]
        wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
        log = compute.read_logs(handle)
        assert '"completed"' in log[-1]
        assert not any("127.0.0.1:9" in line for line in log), "the small job's lines are not in the execution's log"
        assert pq.read_table(spec.output.path).num_rows == 2
        await_end(tree)

        compute.cancel(handle)
        assert list_folders(settings) == [wait_for_spare(settings.data).name]
        second = launch(compute, make_spec(settings, "second", pipeline, parameters={"FILE": "rows.csv"}), {})
        assert get_pid(settings, second) != pid
        compute.cancel(second)
        wait_until(lambda: not compute.list(), PATIENCE_SECONDS)
    assert list((settings.data / "scratch").iterdir()) == []


@pytest.mark.long
def test_workers_of_a_spare_get_secrets_from_their_driver_and_a_cancel_ends_all(
    settings: Settings, silent: socket.socket
) -> None:
    port, compute = silent.getsockname()[1], LocalCompute(settings)
    credentials = {"STEEL_DEV_API_KEY": "id", "SPINDLE_BROWSER_SERVICE": "id"}
    spec = make_spec(settings, "browser", crawl(silent, "visit"), credentials=credentials)
    service = f"ws://127.0.0.1:{port}"
    with keep_spares(compute):
        pid = get_spare_pid(wait_for_spare(settings.data))
        wait_until(lambda: descendants(pid), PATIENCE_SECONDS)  # the JVM
        older = {pid, *descendants(pid)}
        handle = launch(compute, spec, {"STEEL_DEV_API_KEY": SECRET, "SPINDLE_BROWSER_SERVICE": service})
        assert get_pid(settings, handle) == pid
    assert compute.observe(handle).running, "a taken spare outlives its keeper"
    silent.settimeout(2 * PATIENCE_SECONDS)
    connection, _ = silent.accept()
    with connection:
        assert SECRET in connection.recv(4096).decode(), "a worker connects to the browser's service with its key"
        tree = [pid, *descendants(pid)]
        for each in tree:
            with suppress(psutil.Error, OSError):
                assert SECRET not in " ".join(psutil.Process(each).cmdline())
                assert each not in older or SECRET not in psutil.Process(each).environ().values()
        LocalCompute(settings).cancel(handle)
        wait_until(lambda: not running(tree), PATIENCE_SECONDS)
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    assert list((settings.data / "scratch").iterdir()) == []


def test_a_killed_spare_is_replaced_and_a_stuck_one_is_passed_by(settings: Settings, silent: socket.socket) -> None:
    compute = LocalCompute(settings)
    with keep_spares(compute):
        first = wait_for_spare(settings.data)
        pid = get_spare_pid(first)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: find_spares(settings.data) and first not in find_spares(settings.data), PATIENCE_SECONDS)
        stuck = get_spare_pid(wait_for_spare(settings.data))
        os.kill(stuck, signal.SIGSTOP)
        handle = launch(compute, make_spec(settings, "cold", crawl(silent)), {})
        assert get_pid(settings, handle) != stuck
        await_end([stuck])
        compute.cancel(handle)


def test_an_execution_with_other_settings_starts_cold(settings: Settings, silent: socket.socket) -> None:
    compute = LocalCompute(settings)
    with keep_spares(compute):
        pid = get_spare_pid(wait_for_spare(settings.data))
        spec = make_spec(
            settings, "large", crawl(silent), spark={"master": "local[1]", "conf": {"spark.driver.memory": "600m"}}
        )
        handle = launch(compute, spec, {})
        assert get_pid(settings, handle) != pid
        assert running([pid])
        compute.cancel(handle)


@pytest.mark.long
def test_a_spare_ends_with_the_process_that_keeps_it(settings: Settings) -> None:
    keeper = subprocess.Popen([sys.executable, "-c", KEEPER, str(settings.data)], cwd=CLONE)
    try:
        left = wait_for_spare(settings.data)
        pid = get_spare_pid(left)
        wait_until(lambda: descendants(pid), PATIENCE_SECONDS)  # the JVM
        tree = [pid, *descendants(pid)]
    finally:
        keeper.kill()
        keeper.wait()
    await_end(tree)
    with keep_spares(LocalCompute(settings)):  # which removes what is left, and starts its own
        wait_until(lambda: left not in (settings.data / "scratch").iterdir(), PATIENCE_SECONDS)
        assert get_spare_pid(wait_for_spare(settings.data)) != pid


@pytest.mark.long
def test_changed_code_replaces_a_spare(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_keeper, "CHECK_SECONDS", 0.0)
    keeper = HostKeeper(settings, DriverQueue(None, lambda: 0))
    try:
        keeper.keep()
        spare = wait_for_spare(settings.data)
        pid = get_spare_pid(spare)
        keeper.keep()
        assert running([pid])
        os.utime(CLONE / "driver/__init__.py")
        keeper.keep()
        assert not running([pid])
        assert not spare.exists()
    finally:
        keeper.close()
    assert list((settings.data / "scratch").iterdir()) == []


def test_spares_have_the_libraries_that_executions_have_used(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_keeper, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(host_keeper, "has_jars", lambda library: library != "iceberg")
    keeper = HostKeeper(shop.settings, DriverQueue(None, lambda: 0), shop.database)
    keeper._find_libraries()
    assert keeper._libraries == frozenset()
    execution = shop.submit()
    with shop.database.write() as session:
        session.get_one(Execution, execution.id).libraries = ["delta", "iceberg", "postgresql", "s3"]
    keeper._find_libraries()
    assert keeper._libraries == {"delta"}, "those of formats that are on this machine"


@pytest.mark.long
@needs_libraries
def test_a_spare_is_replaced_when_a_format_is_used(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_keeper, "CHECK_SECONDS", 0.0)
    keeper = HostKeeper(shop.settings, DriverQueue(None, lambda: 0), shop.database)
    try:
        keeper.keep()
        first = wait_for_spare(shop.settings.data)
        execution = shop.submit()
        with shop.database.write() as session:
            session.get_one(Execution, execution.id).libraries = ["delta"]
        keeper.keep()
        assert not first.exists()
        spec = HostSpec.model_validate_json((wait_for_spare(shop.settings.data) / HOST_FILE).read_bytes())
        assert spec.spark.libraries == ("delta",)
    finally:
        keeper.close()


def test_no_spares_are_kept_where_none_are_wanted(settings: Settings) -> None:
    assert count_spares(settings) == 1
    assert count_spares(Settings(spare_drivers=None)) in (0, 1)
    elsewhere = settings.replace(spare_drivers=0, spark_master="spark://127.0.0.1:7077")
    keeper = HostKeeper(elsewhere, DriverQueue(None, lambda: 0))
    keeper.keep()
    keeper.close()
    assert not find_spares(settings.data)


@pytest.mark.long
def test_without_spares_a_driver_is_started_for_an_execution_that_waits(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("name\nbook\n")
    pipeline = f"pipeline: [{{stage: load_csv, args: [{{path: '{tmp_path}/rows.csv', header: true}}]}}]"
    settings, owner = shop.settings.replace(spare_drivers=0), shop.organization_id
    compute = LocalCompute(settings, shop.database)
    with keep_spares(compute):
        first = compute.launch(make_spec(settings, "first", pipeline, organization_id=owner), {})
        assert first.source is DriverSource.SPARE
        assert not find_spares(settings.data)
        wait_until(lambda: not compute.observe(first.handle).running, PATIENCE_SECONDS)
        folder = wait_for_spare(settings.data)
        assert folder.name == first.driver, "it waits for another execution of the organization"
        compute.cancel(first.handle)
    with shop.database.read() as session:
        overhead = sum_overhead(session, owner, Period(now() - timedelta(hours=2), now()))
    assert overhead.start_ms > 0
    assert overhead.idle_ms > 0


@pytest.mark.long
def test_a_spare_that_is_not_a_setting_ends_where_only_others_wait_that_it_does_not_fit(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_keeper, "WAITED_SECONDS", -1.0)
    queue = DriverQueue(1, lambda: 0)
    keeper = HostKeeper(settings.replace(spare_drivers=0), queue)
    fitting, other = (
        make_spec(settings, name, "", spark=build_spark_spec(settings, libraries))
        for name, libraries in (("fitting", []), ("other", ["s3"]))
    )
    try:
        with queue.join(other):
            keeper.keep()
            assert not find_spares(settings.data), "it would be of no use"
            with queue.join(fitting):
                keeper.keep()
                pid = get_spare_pid(wait_for_spare(settings.data))
                keeper.keep()
                assert running([pid])
        keeper.keep()
        assert running([pid]), "nobody else waits"
        with queue.join(other):
            keeper.keep()
        assert not running([pid])
        assert not list_folders(settings)
    finally:
        keeper.close()
