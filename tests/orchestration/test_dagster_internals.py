"""Dagster's private API is what orchestration.dagster_internals expects; a failure quotes the reason and the fallback.

The module is imported in the tests: where a name is missing, its import fails.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import dagster
import pytest
from dagster import AssetKey, DagsterInstance, Definitions, JobDefinition, asset, in_process_executor

from core.infra.run_socket import get_run_socket
from driver.unix_socket import bind
from tests.support.service import free_port

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("dagster_internals", "dagster_run_internals", "dagster_database_internals")
MODULES = [ROOT / "orchestration" / f"{name}.py" for name in NAMES]
RUN_ID = "0b8f1f3e-5a5e-4ba9-9f0a-6d9ad7d4a0b1"
ROOMS = ("api", "bench", "cli", "core", "driver", "orchestration", "pipelines", "plugins", "spindle")
PRIVATE = re.compile(r"\bdagster\._")
PRIVATE_ATTRIBUTE = re.compile(r"\b(instance|run|context|definitions)\._[a-z]")
TREES = [ast.parse(path.read_text()) for path in MODULES]
NODES = [node for tree in TREES for node in ast.walk(tree)]
BLOCKS = [node for tree in TREES for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
USES = {node.name: " ".join((ast.get_docstring(node) or "").split()) for node in BLOCKS}


@contextmanager
def use(name: str) -> Generator[None]:
    """Fail with the reason of the use and its fallback."""
    try:
        yield
    except Exception as error:
        pytest.fail(describe(name, str(error) or repr(error)), pytrace=False)


def describe(name: str, change: str) -> str:
    return f"Dagster {dagster.__version__} has changed what {name} uses: {change}. {USES[name]}"


def test_every_private_name_exists() -> None:
    imports = [node for node in NODES if isinstance(node, ast.ImportFrom) and is_private(node.module)]
    texts = [node.value for node in NODES if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    modules = [text for text in texts if is_private(text) and " " not in text]
    found = {alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    assert len(found) > 20
    missing = [describe_import(name, path) for name, path in found.items() if not exists(path)]
    missing += [describe("import_before_fork", f"there is no {path}") for path in modules if not exists(path)]
    assert not missing, "\n".join(missing)


def is_private(module: str | None) -> bool:
    return (module or "").startswith("dagster._")


def exists(path: str) -> bool:
    """Return whether there is this module, or this name in a module."""
    module, _, name = path.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(path))
    except ImportError:
        return False


def describe_import(name: str, path: str) -> str:
    users = [
        node.name for node in BLOCKS if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
    ]
    return "\n".join(describe(user, f"there is no {path}") for user in users)


def test_every_use_states_its_reason_and_fallback() -> None:
    for name, text in USES.items():
        if name.startswith("_"):
            continue
        assert "Public API: " in text, name
        assert "Fallback: " in text, name


def test_no_other_module_uses_the_private_api() -> None:
    files = [path for room in ROOMS for kind in ("*.py", "*.yaml") for path in (ROOT / room).rglob(kind)]
    assert {*MODULES} <= {*files}
    users = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if path not in MODULES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PRIVATE.search(line) or (path.is_relative_to(MODULES[0].parent) and PRIVATE_ATTRIBUTE.search(line))
    ]
    assert not users, f"Dagster's private API belongs into orchestration/dagster_internals.py, not into {users}"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    launcher = {"run_launcher": {"module": "orchestration.run_launcher", "class": "ServiceRunLauncher"}}
    (tmp_path / "instance").mkdir()
    with DagsterInstance.local_temp(str(tmp_path / "instance"), overrides=launcher) as instance:
        yield instance


@asset
def books() -> None: ...


def make_job() -> JobDefinition:
    return Definitions(assets=[books], executor=in_process_executor).resolve_implicit_global_asset_job_def()


@pytest.mark.long
def test_a_run_is_created_with_an_id_and_an_origin_and_executed_here(instance: DagsterInstance) -> None:
    from orchestration.dagster_internals import locate_repository
    from orchestration.dagster_run_internals import create_run, execute_stored_run, is_resumed, plan_job

    job = make_job()
    with use("plan_job"):
        plan_job(job)
    with use("locate_repository"):
        repository = locate_repository("127.0.0.1", 1, "shop")
    with use("create_run"):
        run = create_run(
            instance,
            job,
            RUN_ID,
            config={},
            tags={"dagster/is_resume_retry": "true"},
            assets={AssetKey("books")},
            repository=repository,
            module="shop.definitions",
        )
        assert (run.run_id, run.remote_job_origin.location_name) == (RUN_ID, "shop")
    with use("is_resumed"):
        assert is_resumed(run)
    with use("execute_stored_run"):
        execute_stored_run(instance, job, run)
        stored = instance.get_run_by_id(RUN_ID)
        assert stored.is_success


@pytest.mark.long
def test_runs_of_other_locations_have_a_command(instance: DagsterInstance) -> None:
    from orchestration.dagster_internals import build_command, locate_repository
    from orchestration.dagster_run_internals import create_run

    repository = locate_repository("127.0.0.1", 1, "shop")
    run = create_run(
        instance,
        make_job(),
        RUN_ID,
        config={},
        tags={},
        assets={AssetKey("books")},
        repository=repository,
        module="shop",
    )
    with use("build_command"):
        command = build_command(instance, run)
        assert command[:5] == [sys.executable, "-m", "dagster", "api", "execute_run"]
        assert run.job_code_origin is not None
        # the origin of a code server that `dagster` has started, where `dagster` is not on PATH
        origin = run.job_code_origin
        named = origin._replace(repository_origin=origin.repository_origin._replace(entry_point=["dagster"]))
        assert build_command(instance, run._replace(job_code_origin=named))[:5] == command[:5]


@pytest.mark.long
def test_dagster_asks_the_launcher_for_the_process_of_a_run(instance: DagsterInstance) -> None:
    from orchestration.dagster_internals import ConfiguredRunLauncher

    run = instance.create_run_for_job(make_job())
    with use("ConfiguredRunLauncher"):
        launcher = instance.run_launcher
        assert isinstance(launcher, ConfiguredRunLauncher)
        assert launcher.instance is instance
        assert launcher.supports_check_run_worker_health
        assert launcher.check_run_worker_health(run).status.value == "RUNNING"  # its server may be about to resume it
        with bind(get_run_socket(Path(instance.root_directory))) as server:
            server.listen()
            assert launcher.check_run_worker_health(run).status.value == "NOT_FOUND"


def test_a_code_server_answers_with_what_was_serialized_before(tmp_path: Path) -> None:
    from dagster._grpc.client import DagsterGrpcClient

    from orchestration.dagster_internals import CodeServer, locate_repository, serialize_definitions

    (tmp_path / "served_by_test.py").write_text("from dagster import Definitions\ndefinitions = Definitions()\n")
    with use("serialize_definitions"):
        serialized = serialize_definitions(Definitions(assets=[books]))
        assert "books" in serialized
    port, ready = free_port(), threading.Event()
    with use("CodeServer"):
        server = CodeServer(
            "127.0.0.1",
            port,
            module="served_by_test",
            folder=tmp_path,
            location="shop",
            serialized=serialized,
            server_id="first",
        )
        serving = threading.Thread(target=server.serve, args=(ready.set,))
        serving.start()
    try:
        assert ready.wait(20)
        with use("CodeServer"):
            client = DagsterGrpcClient(port=port, host="127.0.0.1")
            answer = client.external_repository(locate_repository("127.0.0.1", port, "shop"), defer_snapshots=True)
            assert answer == serialized
            assert client.get_server_id() == "first"
            server.show_id("second")
            assert client.get_server_id() == "second"
    finally:
        server.end()
        serving.join(20)
    assert not serving.is_alive()


def test_dagster_fires_and_lists_the_ticks_of_our_crons(monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster._core.remote_representation.external import RemoteSchedule

    from orchestration.dagster_internals import follow_crons

    class Repository:
        location_name = "shop"

    class Handle:
        repository_handle = Repository()

    class Schedule(RemoteSchedule):
        handle = Handle()  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
        cron_schedule, execution_timezone = "0 */2 * * *", "America/New_York"

        def __init__(self) -> None: ...

    monkeypatch.setattr(RemoteSchedule, "execution_time_iterator", RemoteSchedule.execution_time_iterator)
    start = datetime(2026, 3, 8, 5, tzinfo=UTC)  # 0:00, two hours before the clock goes from 2:00 to 3:00

    def list_hours() -> list[int]:
        return [tick.hour for tick in islice(Schedule().execution_time_iterator(start.timestamp()), 4)]

    with use("follow_crons"):
        follow_crons("another")
        assert list_hours() == [0, 3, 4, 6]  # Dagster's
        follow_crons("shop")
        assert list_hours() == [0, 4, 6, 8]


def test_the_names_of_a_workspace_are_read(tmp_path: Path) -> None:
    from orchestration.dagster_internals import read_location_names

    workspace = tmp_path / "workspace.yaml"
    workspace.write_text("load_from: [{grpc_server: {host: localhost, port: 1, location_name: shop}}]\n")
    with use("read_location_names"):
        assert read_location_names(workspace) == {"shop"}


def test_the_daemon_looks_for_runs_while_there_are_any_or_somebody_writes(instance: DagsterInstance) -> None:
    from orchestration.dagster_internals import rest_without_runs

    looks: list[int] = []

    def iterate(_daemon: object, _context: object) -> Iterator[None]:
        looks.append(len(looks))
        yield None

    with use("rest_without_runs"):
        rested = rest_without_runs(iterate, Path(instance.root_directory) / "history" / "runs.db")
        context = SimpleNamespace(instance=instance)

        def count_looks() -> int:
            looks.clear()
            for _ in range(3):
                list(rested(None, context))
            return len(looks)

        assert [count_looks(), count_looks()] == [1, 0]
        run = instance.create_run_for_job(make_job())
        assert [count_looks(), count_looks()] == [3, 3]
        instance.report_run_failed(run)
        assert [count_looks(), count_looks()] == [1, 0]


def test_the_scheduler_beats_while_it_waits_for_the_next_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster._daemon.daemon import SchedulerDaemon
    from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

    from core.infra import heartbeats
    from orchestration import dagster_internals

    stop, beats = threading.Event(), list[str]()

    def wait_on(_daemon: object, _context: object, shutdown_event: threading.Event) -> bool:
        return shutdown_event.wait(60)

    def beat(loop: str) -> None:
        beats.append(loop)
        if len(beats) == 3:
            stop.set()

    for daemon in (SchedulerDaemon, QueuedRunCoordinatorDaemon):
        monkeypatch.setattr(daemon, "_check_add_heartbeat", daemon._check_add_heartbeat)
    monkeypatch.setattr(SchedulerDaemon, "core_loop", wait_on)
    monkeypatch.setattr(heartbeats, "BEAT_SECONDS", 0.01)
    dagster_internals.follow_daemons(beat)
    assert SchedulerDaemon.core_loop(SchedulerDaemon(), None, stop)  # pyright: ignore[reportArgumentType]
    assert beats == ["scheduler"] * 3
