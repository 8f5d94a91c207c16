"""Kills at random: the processes of a running Spindle by their kind, and a client that calls until it is answered."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import httpx
import psutil

from tests.support.processes import command_line, descendants
from tests.support.service import Service

SEED = "SPINDLE_CRASH_SEED"
LONGEST_OUTAGE_SECONDS = 240  # a process that was killed several times is restarted after pauses of up to 30 s
OF_DRIVERS = ("driver", "worker", "jvm")
MODULES = {
    "api": "api",
    "core.integrations.webhooks": "webhooks",
    "orchestration.launcher": "launcher",
    "orchestration.definitions": "code server",
    "orchestration.code_server": "code server",
    "dagster-webserver": "user interface",
    "dagster-daemon": "daemon",
    "driver": "driver",
    "pipelines.spark.daemon": "worker",
}


def choose_seed() -> int:
    """The seed of a round: that of the environment, else a new one. It is printed."""
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1_000_000))
    print(f"{SEED}={seed}")
    return seed


@dataclass(frozen=True)
class Victim:
    """A process that may be killed, and the execution whose process it is, where it belongs to one."""

    kind: str
    pid: int
    owner: str | None = None


def list_victims(service: Service) -> list[Victim]:
    """The processes of the instance by kind; those of drivers have their execution."""
    drivers = _read_pidfiles(service.data / "drivers")
    victims: list[Victim] = []
    for pid in descendants(service.process.pid):
        kind = _find_kind(pid)
        if kind in OF_DRIVERS:
            victims.append(Victim(kind, pid, _find_execution(pid, drivers)))
        elif kind:
            victims.append(Victim(kind, pid))
    return victims


def kill(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def kill_everything(service: Service) -> None:
    """Kill the supervisor and all its processes at once, as when a machine loses its power."""
    everything = [service.process.pid, *descendants(service.process.pid)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none sees the end of another
        for pid in everything:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    service.process.wait()


@dataclass
class PersistentClient:
    """Repeats each call until it is answered, as a client of a service does that is being restarted."""

    service: Service
    refusals: list[int] = field(default_factory=list[int])

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **headers: str) -> Any:
        deadline = time.monotonic() + LONGEST_OUTAGE_SECONDS
        fields = {"X-API-Key": self.service.key, **{name.replace("_", "-"): value for name, value in headers.items()}}
        while True:
            assert time.monotonic() < deadline, f"{method} {path}: no answer"
            try:
                answer = httpx.request(
                    method,
                    f"{self.service.base_url}{path}",
                    json=body,
                    headers=fields,
                    timeout=30,
                    trust_env=False,
                    verify=False,
                )
            except httpx.TransportError:
                time.sleep(0.2)
                continue
            if answer.status_code in (429, 503):
                self.refusals.append(answer.status_code)
                time.sleep(0.5)
                continue
            assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
            return answer.json()


def pick(chance: Random, victims: Iterable[Victim], kind: str) -> Victim | None:
    """One of the kind; of drivers only those that have an execution."""
    found = [victim for victim in victims if victim.kind == kind and (victim.owner or kind not in OF_DRIVERS)]
    return chance.choice(found) if found else None


def _find_kind(pid: int) -> str | None:
    arguments = command_line(pid)
    if arguments and arguments[0].endswith("java"):
        return "jvm"
    # the interface and the daemon are modules that another module runs
    return next((MODULES[each] for each in reversed(arguments) if each in MODULES), None)


def _read_pidfiles(folder: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError, ValueError):  # it has just ended, or begins
            found[int(path.read_text())] = path.name
    return found


def _find_execution(pid: int, drivers: Mapping[int, str]) -> str | None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.parents()):
            if each.pid in drivers:
                return drivers[each.pid].split(".")[1]
    return None
