"""The contract of Compute, which every implementation fulfils. Its drivers are real processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from core.infra.pidfile import read_alive_pid
from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec
from orchestration.compute.local import LocalCompute
from orchestration.compute.processes import list_users
from orchestration.compute.protocol import Compute, DriverHandle
from pipelines.contract.request import RunRequest
from tests.support.forks import keep_forks
from tests.support.run_requests import make_request
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import GatedSite
from tests.support.spares import keep_spares, launch, wait_for_spare

ComputeFactory = Callable[[], Compute]
MakeSpec = Callable[[str], RunRequest]
KINDS = ("cold", "spare", "fork")  # a driver's process: a new one, a spare with Spark, a fork without it
CRAWL = """
fetch: {url: 'http://127.0.0.1:1/'}
pipeline: [{stage: extract, args: [{selector: a, method: text, as: a}]}]
"""
LAUNCHED = DriverHandle("organization", "execution", 1)
UNKNOWN = DriverHandle("organization", "nobody", 1)


@pytest.fixture(params=KINDS)
def create(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ComputeFactory]:
    """The first call returns the instance that keeps the hosts, others one as the next launcher has it."""
    (tmp_path / "data").mkdir()
    created: list[Compute] = []
    keeping = LocalCompute(Settings(data=tmp_path / "data", spare_drivers=1))
    stack = ExitStack()
    if request.param == "spare":
        stack.enter_context(keep_spares(keeping))
        wait_for_spare(tmp_path / "data")
    if request.param == "fork":
        stack.enter_context(keep_forks(keeping))

    def create() -> Compute:
        created.append(LocalCompute(Settings(data=tmp_path / "data")) if created else keeping)
        return created[-1]

    yield create
    create().cancel(LAUNCHED)
    wait_until(lambda: not any(compute.observe(LAUNCHED).running for compute in created), PATIENCE_SECONDS)
    stack.close()


@pytest.fixture
def spec(make_spec: MakeSpec, site: GatedSite) -> RunRequest:
    """A driver with it waits for a page."""
    return make_spec(CRAWL.replace("http://127.0.0.1:1/", site.url))


@pytest.fixture
def make_spec(tmp_path: Path, request: pytest.FixtureRequest) -> MakeSpec:
    begins_with_spark = request.node.callspec.params["create"] != "fork"
    return lambda pipeline: build_driver_spec(tmp_path, pipeline, begins_with_spark)


def build_driver_spec(tmp_path: Path, pipeline: str, begins_with_spark: bool) -> RunRequest:
    fields = {"spark": build_spark_spec(Settings()), "begins_with_spark": begins_with_spark}
    fetch, output = {"allowNetworks": ["127.0.0.0/8"]}, {"path": str(tmp_path / "output")}
    return make_request(pipeline_yaml=pipeline, fetch=fetch, output=output, **fields)


def find_driver(tmp_path: Path) -> psutil.Process | None:
    pid = read_alive_pid(tmp_path / "data/drivers" / LAUNCHED.name)
    process = psutil.Process(pid) if pid else None
    return process if process and "driver" in process.cmdline() else None


def test_a_launched_driver_runs_and_is_listed(create: ComputeFactory, spec: RunRequest) -> None:
    handle = launch(create(), spec, {})
    assert handle == LAUNCHED
    assert create().observe(handle).running
    assert list(create().list()) == [handle]


def test_an_ended_driver_leaves_its_exit_code_and_its_log(create: ComputeFactory, make_spec: MakeSpec) -> None:
    compute = create()
    handle = launch(compute, make_spec("pipeline: [{stage: unknown}]"), {})
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    assert compute.observe(handle).exit_code in (1, None)  # that of a spare is its keeper's to know
    assert not create().observe(handle).running
    assert "unknown" in compute.read_logs(handle)[-1]
    assert len(compute.read_logs(handle, tail=1)) == 1
    assert compute.read_logs(handle, "executor") == []
    assert list(compute.list()) == []


@pytest.mark.long
@pytest.mark.parametrize("create", ["fork"], indirect=True)
def test_a_fork_has_a_session_of_its_own_and_outlives_the_server(
    create: ComputeFactory, spec: RunRequest, site: GatedSite, tmp_path: Path
) -> None:
    compute = create()
    handle = launch(compute, spec, {})
    site.wait_for_visitor()
    driver = find_driver(tmp_path)
    assert os.getsid(driver.pid) == driver.pid
    server = driver.parent()
    assert len(server.threads()) == 1
    server.kill()
    site.open()
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    assert "completed" in compute.read_logs(handle)[-1]
    whole = compute.read_log_part(handle, 0, 2**20)
    assert compute.read_log_part(handle, 10, 20) == whole[10:30]
    assert compute.read_log_part(handle, len(whole), 20) == b""
    assert pq.read_table(tmp_path / "output").num_rows == 1


def test_any_instance_can_cancel_a_driver(create: ComputeFactory, spec: RunRequest, tmp_path: Path) -> None:
    launcher = create()
    handle = launch(launcher, spec, {})
    wait_until(lambda: find_driver(tmp_path), PATIENCE_SECONDS)
    create().cancel(handle)
    wait_until(lambda: not launcher.observe(handle).running, PATIENCE_SECONDS)
    assert list(create().list()) == []


@pytest.mark.long
@pytest.mark.parametrize("create", ["cold", "spare"], indirect=True)
def test_cancel_ends_the_jvm_of_a_driver_that_was_killed(
    create: ComputeFactory, make_spec: MakeSpec, tmp_path: Path
) -> None:
    compute = create()
    handle = launch(compute, make_spec(CRAWL), {})
    scratch = str((tmp_path / "data/scratch/execution.1").resolve())
    wait_until(lambda: list_jvms(scratch), PATIENCE_SECONDS)
    (jvm,) = list_jvms(scratch)
    driver = find_driver(tmp_path)
    jvm.suspend()  # it would end by itself if it were further than its start
    driver.kill()
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    compute.cancel(handle)
    wait_until(lambda: not jvm.is_running(), PATIENCE_SECONDS)


def list_jvms(scratch: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in list_users(scratch):
        with suppress(psutil.NoSuchProcess):
            if process.name() == "java":
                found.append(process)
    return found


def test_secrets_are_at_most_in_the_drivers_environment(
    create: ComputeFactory,
    spec: RunRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setenv("SPINDLE_SECRET_KEY", "key of the service, which has 32 characters")
    handle = launch(create(), spec, {"API_KEY": "secret of the driver"}, {"PLAIN": "value"})
    wait_until(lambda: find_driver(tmp_path), PATIENCE_SECONDS)
    process = find_driver(tmp_path)
    environment, command = process.environ(), " ".join(process.cmdline())
    if request.node.callspec.params["create"] == "cold":
        assert (environment["API_KEY"], environment["PLAIN"]) == ("secret of the driver", "value")
    else:  # they came later, through its socket
        assert not {"API_KEY", "PLAIN"} & environment.keys()
    assert "SPINDLE_SECRET_KEY" not in environment
    assert "secret of the driver" not in command
    create().cancel(handle)


def test_a_driver_that_was_never_launched_is_not_running(create: ComputeFactory) -> None:
    compute = create()
    assert not compute.observe(UNKNOWN).running
    compute.cancel(UNKNOWN)
    assert compute.read_logs(UNKNOWN) == []
    assert list(compute.list()) == []
