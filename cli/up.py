"""`spindle up`: one foreground supervisor over the API, the launcher and Dagster's processes of one data folder."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli.readiness import wait_until_ready
from core.infra.database import DAGSTER_DATABASE, dagster_database_url
from core.infra.processes import Child, adopt_orphans, end_descendants, reap_adopted
from core.infra.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
STOP_SECONDS = 20


class CannotStart(Exception):
    """Why this instance cannot start, as a sentence for the person at the terminal."""


def up(data: Path, port: int, ui_port: int, host: str, workers: int = 1) -> int:
    """Runs until SIGINT or SIGTERM; the exit code is 1 when it could not start."""
    settings = Settings(data=data.resolve(), port=port, ui_port=ui_port, host=host, api_workers=workers)
    try:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(settings.data), _told(settings), _held_port() as code_port:
            _check_port(host, port, "--port")
            _check_port("127.0.0.1", ui_port, "--ui-port")
            return asyncio.run(_supervise(settings, code_port))
    except CannotStart as reason:
        print(reason, file=sys.stderr)
        return 1


@contextmanager
def locked(data: Path) -> Generator[None]:
    """Holds the data folder for one instance; raises CannotStart when another has it."""
    with (data / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(f"Another Spindle is running on {data}. Stop it, or choose another --data.") from None
        yield


@contextmanager
def _told(settings: Settings) -> Generator[None]:
    """While it runs, the data folder says where it is found."""
    address = settings.data / "address"
    address.write_text(settings.service_url)
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
def _held_port() -> Generator[int]:
    """A port that nobody else is given before the code server listens there, nor while it is started again.

    It is shared with those alone who ask to share, as gRPC does; until one listens, connections are refused.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


async def _supervise(settings: Settings, code_port: int) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    adopt_orphans()
    environment = _environment(settings)
    await asyncio.gather(
        _prepare(environment, "cli.prepare"),
        _prepare(environment, "orchestration.instance", str(code_port)),
    )
    runs, *others = children = _children(settings, environment, code_port)
    tasks = [asyncio.create_task(child.keep_running()) for child in children]
    meanwhile = [asyncio.create_task(_announce(settings)), asyncio.create_task(reap_adopted())]
    await stop.wait()
    for task in meanwhile:
        task.cancel()
    print("Stopping ...", flush=True)
    await runs.stop(STOP_SECONDS)  # first, while the API still takes what the drivers have to say
    await asyncio.gather(*(child.stop(STOP_SECONDS) for child in others))
    await asyncio.gather(*tasks)
    end_descendants()
    return 0


def _children(settings: Settings, environment: dict[str, str], code_port: int) -> Sequence[Child]:
    quiet = ["--log-level", "warning"]
    workspace = [*quiet, "-w", str(settings.data / "dagster" / "workspace.yaml")]
    code = ["-m", "orchestration.definitions", "-d", str(ROOT), "--location-name", "spindle", "--port", str(code_port)]
    behind = ["orchestration.behind", str(code_port)]
    commands = {
        "runs": ["orchestration.run_server"],
        "api": ["api"],
        "launcher": ["orchestration.launcher"],
        "webhooks": ["core.webhooks"],
        "code": ["dagster", "api", "grpc", "--host", "127.0.0.1", *quiet, *code],
        "ui": [*behind, "dagster_webserver.cli", "-h", "127.0.0.1", "-p", str(settings.ui_port), *workspace],
        "daemon": [*behind, "dagster._daemon.cli", "run", *workspace],
    }
    return [Child(name, _python(*command), environment, settings.data) for name, command in commands.items()]


def _python(*module: str) -> list[str]:
    """`-P` keeps what lies in the data folder from being imported in place of ours."""
    return [sys.executable, "-P", "-m", *module]


def _environment(settings: Settings) -> dict[str, str]:
    spindle = {
        "SPINDLE_DATA": str(settings.data),
        "SPINDLE_HOST": settings.host,
        "SPINDLE_PORT": str(settings.port),
        "SPINDLE_UI_PORT": str(settings.ui_port),
        "SPINDLE_API_WORKERS": str(settings.api_workers),
    }
    here = {"DAGSTER_HOME": str(settings.data / "dagster"), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **spindle, **here, **_dagster_database(settings)}


def _dagster_database(settings: Settings) -> dict[str, str]:
    url = dagster_database_url(settings)
    return {DAGSTER_DATABASE: url} if url else {}


async def _prepare(environment: dict[str, str], *module: str) -> None:
    process = await asyncio.create_subprocess_exec(*_python(*module), env=environment)
    if await process.wait() != 0:
        raise CannotStart(f"Could not prepare the data folder: {module[0]} failed, its message is above.")


async def _announce(settings: Settings) -> None:
    await wait_until_ready(settings)
    lines = {
        "API": settings.service_url,
        "API docs": f"{settings.api_url}/docs",
        "Dagster UI": f"http://127.0.0.1:{settings.ui_port}",
        "Admin key": str(settings.data / "admin-key"),
    }
    print("\nSpindle is ready.", *(f"  {name:<11}{value}" for name, value in lines.items()), "", sep="\n", flush=True)
