"""Drivers that serve several executions: whose they are, what each next one sees, and how executions wait for them."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from core.infra.settings import Settings
from driver.host_folder import SOCKET
from orchestration.compute.host import PIDFILE
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import DriverSource, Launch
from pipelines.contract.request import RunRequest
from pipelines.language.engines import EngineName
from tests.support.driver import await_end
from tests.support.processes import command_line, descendants, running
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.spares import get_pid, keep_spares, launch, make_spec, wait_for_spare

ORGANIZATION = "organization"
MANY, SLACK = 6, 12
FAILS = "def mark(row):\n    raise ValueError(1)\n"
SECRET = "secret-of-the-first"
# temporary views, cached rows and a user's function
LEAVES = """
pipeline:
  - {stage: load_csv, args: [{path: "%s", header: true}]}
  - {stage: cache, args: []}
  - {stage: "python_row_transform:mark"}
  - {stage: sql_query, args: ["SELECT name, seen, count(*) AS number FROM rows GROUP BY name, seen"]}
"""
MARK = """
import builtins, os
def mark(row):
    seen = getattr(builtins, "mark_of_test", "nothing")
    builtins.mark_of_test = row["name"]
    return {**row, "seen": f"{seen} {os.environ.get('TOKEN', 'no token')}"}
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    data = tmp_path_factory.mktemp("pools") / "data"
    data.mkdir()
    (data.parent / "rows.csv").write_text("name\nbook\n")
    return Settings(data=data, spark_master="local[1]", spark_driver_memory="512m", spare_drivers=1, spark_drivers=1)


@pytest.fixture(scope="module")
def compute(settings: Settings) -> Iterator[LocalCompute]:
    compute = LocalCompute(settings)
    with pytest.MonkeyPatch.context() as patch:
        # a test of bin/ may install the packages anew meanwhile, which replaces drivers
        patch.setattr("orchestration.compute.host_keeper.compute_fingerprint", lambda: "unchanged")
        with keep_spares(compute):
            yield compute


def make(settings: Settings, execution: str, **changes: Any) -> RunRequest:
    text = LEAVES % (settings.data.parent / "rows.csv")
    fields = {"row_transforms": {"mark": MARK}, "isolate_transforms": False, "organization_id": ORGANIZATION}
    return make_spec(settings, execution, text, **{**fields, **changes})


def run(compute: LocalCompute, spec: RunRequest, secrets: dict[str, str] | None = None) -> Launch:
    """Run the execution, and wait until its driver may take another one."""
    launched = compute.launch(spec, secrets or {})
    wait_until(lambda: not compute.observe(launched.handle).running, PATIENCE_SECONDS)
    compute.cancel(launched.handle)
    folder = Path(spec.output.path).parent / "data/scratch" / launched.driver
    wait_until(lambda: not folder.exists() or (folder / SOCKET).exists(), PATIENCE_SECONDS)
    return launched


def read_rows(spec: RunRequest) -> list[dict[str, Any]]:
    return pq.read_table(spec.output.path).to_pylist()


def hang(server: socket.socket) -> str:
    url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    return (
        f"{{pipeline: [{{stage: wget, args: ['{url}']}}], spindle: {{robots: ignore, keepColumns: [_requestedUrl]}}}}"
    )


@pytest.mark.long
def test_the_next_execution_finds_a_warm_driver_and_nothing_of_the_former(
    compute: LocalCompute, settings: Settings
) -> None:
    wait_for_spare(settings.data, ready=True)
    first = make(settings, "first", credentials={"TOKEN": "id"})
    one = run(compute, first, {"TOKEN": SECRET})
    folder = settings.data / "scratch" / one.driver
    files = {path.name for path in folder.iterdir()}
    assert not list((settings.data / "scratch").glob("first.*"))
    second = make(settings, "second")
    two = run(compute, second)
    assert (two.source, two.driver) == (DriverSource.WARM, one.driver)
    assert [row["number"] for row in read_rows(first)] == [1]
    assert read_rows(second) == [{"name": "book", "seen": "nothing no token", "number": 1}]
    assert {path.name for path in folder.iterdir()} == files, "no temporary file is left"
    log = "\n".join(compute.read_logs(two.handle, tail=1000))
    assert '"completed"' in log
    assert SECRET not in log
    tree = descendants(_get_spare_pid(folder))
    daemons = [each for each in tree if "pyspark.worker" in command_line(each)]
    assert daemons
    assert not [each for daemon in daemons for each in descendants(daemon)], "workers of the former are gone"


@pytest.mark.long
def test_an_execution_of_another_organization_gets_another_driver(compute: LocalCompute, settings: Settings) -> None:
    own = run(compute, make(settings, "own"))
    other = run(compute, make(settings, "foreign", organization_id="another"))
    assert other.driver != own.driver
    assert run(compute, make(settings, "own-again")).driver == own.driver


@pytest.mark.long
def test_an_execution_without_reuse_takes_no_warm_driver_and_leaves_none(
    compute: LocalCompute, settings: Settings
) -> None:
    own = run(compute, make(settings, "shared"))
    alone = run(compute, make(settings, "alone", reuses_driver=False))
    assert alone.source is not DriverSource.WARM
    wait_until(lambda: not (settings.data / "scratch" / alone.driver).exists(), PATIENCE_SECONDS)
    assert run(compute, make(settings, "shared-again")).driver == own.driver


@pytest.mark.long
def test_a_failed_pipeline_keeps_its_driver_and_a_cancel_ends_it(
    compute: LocalCompute, settings: Settings, silent: socket.socket
) -> None:
    own = run(compute, make(settings, "before"))
    failing = make(settings, "failing", row_transforms={"mark": FAILS})
    failed = run(compute, failing)
    assert failed.driver == own.driver
    assert '"failed"' in "\n".join(compute.read_logs(failed.handle))
    assert run(compute, make(settings, "after")).driver == own.driver
    handle = launch(compute, make_spec(settings, "hanging", hang(silent), organization_id=ORGANIZATION), {})
    pid = get_pid(settings, handle)
    tree = [pid, *descendants(pid)]
    compute.cancel(handle)
    await_end(tree)
    assert run(compute, make(settings, "at-last")).driver != own.driver


@pytest.mark.long
def test_those_that_wait_for_a_killed_driver_get_another(
    compute: LocalCompute, settings: Settings, silent: socket.socket
) -> None:
    hanging = launch(compute, make_spec(settings, "killed", hang(silent), organization_id=ORGANIZATION), {})
    pid, found = get_pid(settings, hanging), list[Launch]()
    tree = [pid, *descendants(pid)]
    specs = [make(settings, f"waiting-{number}") for number in range(3)]
    threads = [threading.Thread(target=lambda each=each: found.append(run(compute, each))) for each in specs]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(compute.queues[EngineName.SPARK].list_waiting(0)) == 3, PATIENCE_SECONDS)
    assert compute.list() == [hanging]
    os.killpg(pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert not running(tree)
    assert all(read_rows(spec)[0]["seen"] == "nothing no token" for spec in specs)
    assert len(found) == 3
    assert len({each.driver for each in found}) == 1
    assert min(each.waited_seconds for each in found) > 0
    compute.cancel(hanging)


def test_an_execution_that_is_cancelled_while_it_waits_gets_no_driver(
    compute: LocalCompute, settings: Settings, silent: socket.socket
) -> None:
    hanging = launch(compute, make_spec(settings, "busy", hang(silent), organization_id=ORGANIZATION), {})
    waits = 0

    def wait(seconds: float) -> bool:
        nonlocal waits
        waits += 1
        return waits < 3

    assert compute.launch(make(settings, "cancelled"), {}, None, wait) is None
    assert compute.queues[EngineName.SPARK].list_waiting(0) == []
    assert compute.list() == [hanging]
    compute.cancel(hanging)


@pytest.mark.variant
def test_many_executions_leave_no_files_threads_or_memory_in_their_driver(
    compute: LocalCompute, settings: Settings
) -> None:
    drivers, held = set[str](), list[tuple[int, int, int]]()
    for number in range(MANY):
        fails = number == 2
        changes = {"row_transforms": {"mark": FAILS}} if fails else {}
        spec = make(settings, f"soak-{number}", organization_id="busy", **changes)
        launched = run(compute, spec)
        drivers.add(launched.driver)
        if not fails:
            assert read_rows(spec) == [{"name": "book", "seen": "nothing no token", "number": 1}]
        if number in (MANY // 2, MANY - 1):
            held.append(_measure(_get_spare_pid(settings.data / "scratch" / launched.driver)))
    assert len(drivers) == 1
    (files, threads, memory), (files_later, threads_later, memory_later) = held
    assert files_later <= files + SLACK
    assert threads_later <= threads + SLACK
    assert memory_later <= 1.1 * memory


def _measure(driver: int) -> tuple[int, int, int]:
    """Return the open files and threads of the driver and its JVM, and the bytes of the driver alone."""
    process = psutil.Process(driver)
    tree = [process, *(each for each in process.children() if each.name() == "java")]
    return sum(each.num_fds() for each in tree), sum(each.num_threads() for each in tree), process.memory_info().rss


def _get_spare_pid(folder: Path) -> int:
    return int((folder / PIDFILE).read_text())
