"""`spindle up`: supervise the API, the launcher, webhooks, the trainer and Dagster's processes of one data folder."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from cli.data_folder import (
    NO_METADATA,
    RESERVED,
    CannotStart,
    check_storage,
    create_data_folder,
    join_database,
    lock_data_folder,
)
from core.errors import Unavailable
from core.infra.connection_budget import check_connections
from core.infra.forks import Program, WarmParent
from core.infra.heartbeats import BEAT_SECONDS, SILENT_SECONDS, Heartbeats
from core.infra.instance_lock import InstanceLock
from core.infra.process_log import ProcessLog
from core.infra.processes import Child, Process, adopt_orphans, reap_adopted, signal_group, terminate_descendants
from core.infra.settings import Settings
from core.infra.storage import is_bucket
from orchestration.instance import DAGSTER_DATABASE, get_dagster_database_url

ROOT = Path(__file__).resolve().parents[1]
STOP_SECONDS = 20
LOG_NAME = "spindle.log"
STANDARD_ERROR = 2
OF_THE_LEADER = ("trainer", "daemon")
POLL_SECONDS = 0.1
REPORT_SECONDS = 30
LOCK_SECONDS = 5
LEAD_SECONDS = 10  # until one that leads notices that it has lost the lock
DAGSTER_READY = """{ instance { daemonHealth {
    daemonStatus(daemonType: "QUEUED_RUN_COORDINATOR") { healthy lastHeartbeatTime } } }
  repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"""


def up(
    data: Path,
    port: int,
    ui_port: int,
    host: str,
    workers: int = 1,
    workspace: Path | None = None,
    verbose: bool = False,
) -> int:
    """Run until SIGINT or SIGTERM; return 1 when the instance cannot start.

    With `verbose` the terminal shows all lines of the log file, including requests.
    """
    settings = Settings(
        data=data.resolve(),
        port=port,
        ui_port=ui_port,
        host=host,
        api_workers=workers,
        dagster_workspace=workspace and workspace.resolve(),
    )
    try:
        create_data_folder(settings.data)
        check_storage(settings)
        with (
            lock_data_folder(settings.data),
            join_database(settings) as lock,
            _publish_address(settings),
            reserve_port() as code_port,
        ):
            _check_port(host, port, "--port")
            _check_port("127.0.0.1", ui_port, "--ui-port")
            if warning := check_connections(settings, lock.count_instances()):
                print(warning, file=sys.stderr)
            heartbeats = Heartbeats(settings.data)
            heartbeats.reset()
            if lock.lead():
                heartbeats.lead()
            with closing(ProcessLog(settings.data / LOG_NAME, verbose, settings.log.format)) as log:
                return asyncio.run(_supervise(settings, code_port, lock, log))
    except CannotStart as reason:
        print(reason, file=sys.stderr)
        return 1


@contextmanager
def _publish_address(settings: Settings) -> Generator[None]:
    """Store the API's address in the data folder while the instance runs, for commands on the same machine."""
    address = settings.data / "address"
    address.write_text(settings.api.service_url)
    try:
        yield
    finally:
        address.unlink()


def _check_port(host: str, port: int, option: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotStart(f"Cannot listen on {host}:{port} ({reason}). Choose another {option}.") from None


@contextmanager
def reserve_port() -> Generator[int]:
    """Reserve a port for the code server until the supervisor ends, also while the server restarts.

    The socket is bound with SO_REUSEPORT, as gRPC binds its own, and never listens: other processes cannot take the
    port, and connections are refused until the code server listens.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


async def _supervise(settings: Settings, code_port: int, lock: InstanceLock, log: ProcessLog) -> int:
    stop = asyncio.Event()
    children: dict[str, Child] = {}

    def handle_signal() -> None:
        if stop.is_set() and "launcher" in children:
            children["launcher"].terminate()  # without waiting for executions
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle_signal)
    adopt_orphans()
    parent = WarmParent(_create_environment(settings), settings.data)
    running: list[asyncio.Task[None]] = []

    def start(name: str, program: Program) -> None:
        child = children[name] = Child(name, partial(parent.start, replace(program, name=name)), log)
        running.append(asyncio.create_task(child.keep_running()))

    leadership = Leadership(Heartbeats(settings.data), children, start)
    keeping = asyncio.create_task(_keep_lock(lock, stop, parent, leadership, log))
    background = [asyncio.create_task(_print_addresses(settings, log)), asyncio.create_task(reap_adopted()), keeping]
    background.append(asyncio.create_task(_restart_hung(Heartbeats(settings.data), children)))
    try:
        async for name, program in _prepare(parent, settings, code_port, stop):
            if stop.is_set():
                break
            if name in OF_THE_LEADER:
                leadership.add(name, program)
            else:
                start(name, program)
        await stop.wait()
        log.tell("Stopping ...")
    finally:
        lost = keeping.done()
        for task in background:
            task.cancel()
        if "launcher" in children:  # first, while the API still accepts the reports of drivers
            await children["launcher"].stop(settings.executions.stop_seconds + STOP_SECONDS)
        await asyncio.gather(*(child.stop(STOP_SECONDS) for child in children.values()))
        await asyncio.gather(*running)
        terminate_descendants()
    return int(lost)


class Leadership:
    """The processes of which a database has one at a time: they run while this instance leads."""

    def __init__(
        self, heartbeats: Heartbeats, children: dict[str, Child], start: Callable[[str, Program], None]
    ) -> None:
        self._heartbeats = heartbeats
        self._children = children
        self._start = start
        self._programs: dict[str, Program] = {}

    def add(self, name: str, program: Program) -> None:
        self._programs[name] = program
        if self._heartbeats.leads:
            self._start(name, program)

    def begin(self) -> None:
        if not self._heartbeats.leads:
            self._heartbeats.lead(takes_over=True)
            for name, program in self._programs.items():
                self._start(name, program)

    async def end(self) -> None:
        if self._heartbeats.leads:
            self._heartbeats.resign()
            ending = [self._children.pop(name) for name in self._programs]
            await asyncio.gather(*(child.stop(STOP_SECONDS) for child in ending))
            for name in self._programs:
                self._heartbeats.forget_pulse(name)


async def _prepare(
    parent: WarmParent, settings: Settings, code_port: int, stop: asyncio.Event
) -> AsyncGenerator[tuple[str, Program]]:
    """Yield the programs of the service, each as soon as the parent has its imports."""
    folder = await parent.start(Program("cli.data_folder", name="start"), STANDARD_ERROR)
    await parent.import_modules("api.__main__", "core.integrations.webhooks.__main__", "core.training.__main__")
    await _wait_for(folder, "cli.data_folder", stop)
    yield "api", Program("api")
    yield "webhooks", Program("core.integrations.webhooks")
    yield "trainer", Program("core.training")
    await parent.import_modules("orchestration.dagster_internals")
    instance = await parent.start(Program("orchestration.instance", (str(code_port),), name="start"), STANDARD_ERROR)
    await parent.import_modules("orchestration.fork_modules")
    await _wait_for(instance, "orchestration.instance", stop)
    yield "launcher", Program("orchestration.launcher")
    yield "code", Program("orchestration.code_server", (str(code_port),))
    files = [settings.dagster.workspace] if settings.dagster.workspace else []
    files.append(settings.data / "dagster" / "workspace.yaml")
    workspace = ["--log-level", "warning", *(part for file in files for part in ("-w", str(file)))]
    ui = ["-h", "127.0.0.1", "-p", str(settings.dagster.ui_port)]
    yield "ui", _run_dagster(code_port, "dagster-webserver", *ui, *workspace)
    yield "daemon", _run_dagster(code_port, "dagster-daemon", "run", *workspace)


async def _wait_for(step: Process, name: str, stop: asyncio.Event) -> None:
    """Wait for the end of a preparing process, which is terminated when the service is to stop."""
    ending, stopping = asyncio.create_task(step.wait()), asyncio.create_task(stop.wait())
    await asyncio.wait((ending, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not ending.done():
        signal_group(step.pid, signal.SIGTERM)
    if await ending != 0 and not stop.is_set():
        raise CannotStart(f"Could not prepare the data folder: {name} failed; see its message above.")


def _run_dagster(code_port: int, command: str, *arguments: str) -> Program:
    return Program("orchestration.dagster_command", (str(code_port), command, *arguments), title=command)


async def _keep_lock(
    lock: InstanceLock, stop: asyncio.Event, parent: WarmParent, leadership: Leadership, log: ProcessLog
) -> None:
    """Hold the database's lock also after a lost connection, and lead while no other instance does.

    Stop this instance when a command has the database to itself.
    """
    pause, led_since = LOCK_SECONDS, None
    while True:
        await asyncio.sleep(pause)
        try:
            holder = await parent.call_in_thread(lock.acquire)
            leads = not holder and await parent.call_in_thread(lock.lead)
        except Unavailable:  # every process waits for the database
            pause = 1
            continue
        pause = LOCK_SECONDS
        if holder:
            log.tell(RESERVED.format(holder=holder))
            stop.set()
            return
        if not leads:
            led_since = None
            await leadership.end()
        elif led_since is None:
            led_since = time.monotonic()
        elif time.monotonic() - led_since >= LEAD_SECONDS:
            leadership.begin()


async def _restart_hung(heartbeats: Heartbeats, children: Mapping[str, Child]) -> None:
    """Kill the children whose pulse has stopped, counted by the beats of this process, which may have stopped too."""
    pulses: dict[str, int] = {}
    missed = Counter[str]()
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        for name in [*children]:
            pulse = heartbeats.read_pulse(name)
            missed[name] = missed[name] + 1 if pulse and pulse == pulses.get(name) else 0
            pulses[name] = pulse
            if missed[name] * BEAT_SECONDS >= SILENT_SECONDS:
                heartbeats.forget_pulse(name)
                children[name].kill(f"hangs: it gave no sign of life for {SILENT_SECONDS:g} s")


def _create_environment(settings: Settings) -> dict[str, str]:
    spindle = {
        "SPINDLE_DATA": str(settings.data),
        "SPINDLE_HOST": settings.api.host,
        "SPINDLE_PORT": str(settings.api.port),
        "SPINDLE_UI_PORT": str(settings.dagster.ui_port),
        "SPINDLE_API_WORKERS": str(settings.api.workers),
        # for code locations of users, which do not read our settings
        "SPINDLE_SPARK_MASTER": settings.spark.master,
        "SPINDLE_SPARK_DRIVER_MEMORY": settings.spark.driver_memory,
    }
    if settings.storage.address:
        folder = None if is_bucket(settings.storage) else str(Path(settings.storage.address).resolve())
        spindle["SPINDLE_STORAGE"] = folder or settings.storage.address
    if settings.dagster.workspace:
        spindle["SPINDLE_DAGSTER_WORKSPACE"] = str(settings.dagster.workspace)
    here = {"DAGSTER_HOME": str(settings.data / "dagster"), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return {**NO_METADATA, **os.environ, **spindle, **here, **_dagster_database(settings)}


def _dagster_database(settings: Settings) -> dict[str, str]:
    url = get_dagster_database_url(settings)
    return {DAGSTER_DATABASE: url} if url else {}


async def _print_addresses(settings: Settings, log: ProcessLog) -> None:
    await wait_until_ready(settings, log.tell, leads=Heartbeats(settings.data).leads)
    lines = {
        "Console": f"{settings.api.origin}/",
        "API": settings.api.service_url,
        "API docs": f"{settings.api.url}/docs",
        "Dagster UI": f"http://127.0.0.1:{settings.dagster.ui_port}",
        "Admin key": _describe_admin_key(settings),
        "Log": str(settings.data / LOG_NAME),
    }
    addresses = (f"  {name:<11}{value}\n" for name, value in lines.items())
    log.tell(f"\nSpindle is ready.\n{''.join(addresses)}")


def _describe_admin_key(settings: Settings) -> str:
    path = settings.data / "admin-key"
    if settings.keys.admin_key:
        return "that of SPINDLE_ADMIN_KEY"
    return str(path) if path.exists() else "in the data folder of the first instance"


async def wait_until_ready(settings: Settings, tell: Callable[[str], None] = print, *, leads: bool = True) -> None:
    """Return when the API and Dagster answer; report the missing parts every half minute.

    An instance that does not lead has no daemon, and waits for none that started later.
    """
    host = "127.0.0.1" if settings.api.host in ("0.0.0.0", "::") else settings.api.host  # noqa: S104 - compared, not bound
    # once, and here: the event loop would look the name up in threads, which do not survive a fork
    address = socket.getaddrinfo(host, settings.api.port, type=socket.SOCK_STREAM)[0][4][0]
    literal = f"[{address}]" if ":" in str(address) else address
    api, dagster = f"http://{literal}:{settings.api.port}", f"http://127.0.0.1:{settings.dagster.ui_port}"
    started, reported = time.time() if leads else 0.0, time.monotonic()
    async with httpx.AsyncClient(timeout=5, trust_env=False) as http:
        while missing := await find_missing(http, api, dagster, started):
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                tell(f"Still waiting for {' and '.join(missing)}.")
            await asyncio.sleep(POLL_SECONDS)


async def find_missing(http: httpx.AsyncClient, api: str, dagster: str, started: float) -> list[str]:
    parts = {"the API": _is_api_ready(http, api), "Dagster": _is_dagster_ready(http, dagster, started)}
    answers = await asyncio.gather(*parts.values())
    return [name for name, answer in zip(parts, answers, strict=True) if not answer]


async def _is_api_ready(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/readyz")).is_success
    except httpx.HTTPError:
        return False


async def _is_dagster_ready(http: httpx.AsyncClient, url: str, started: float) -> bool:
    """Return whether the webserver has loaded the definitions and the daemon takes runs from the queue.

    A heartbeat before `started` is an earlier daemon's: Dagster calls a daemon healthy for half an hour after its last.
    """
    try:
        data: Any = (await http.post(f"{url}/graphql", json={"query": DAGSTER_READY})).json()["data"]
        daemon, repositories = data["instance"]["daemonHealth"]["daemonStatus"], data["repositoriesOrError"]
        return bool(daemon["healthy"] and daemon["lastHeartbeatTime"] >= started and repositories["nodes"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError):  # no answer yet, or an incomplete one
        return False
