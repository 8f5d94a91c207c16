"""The hosts of drivers on this machine, kept by the launcher: one that forks them, and spares with Spark started.

Executions without Spark are forks of the one (driver/fork_host.py), with its socket in DATA. A spare (driver/host.py)
knows nothing of any organization before its first execution, serves others of the same one afterwards, and is replaced
when it is taken. DATA/spares/<name> is its pidfile and DATA/scratch/<name> its folder; DATA/spares.pid is the keeper's
pidfile, and DATA/spares.json describes the next spare.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import structlog

from core.infra.background import OutageLog
from core.infra.database import Database
from core.infra.pidfile import hold_pidfile, list_alive
from core.infra.processes import signal_group
from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec, load_used_libraries
from driver.host_folder import HOST_FILE, SOCKET, TAKEN, HostSpec, claim, read_host
from orchestration.compute.capacity import count_drivers, count_spares, count_working
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.overhead import OverheadMeter
from orchestration.compute.processes import RECORD_AND_RUN, build_environment, kill_trees, list_tree
from pipelines.language.engines import EngineName
from pipelines.plugin import find_entry_points
from pipelines.registry import find_plugin_folders
from pipelines.spark.cluster import is_local_master
from pipelines.spark.jars import has_jars

POLL_SECONDS = 0.1
WAITED_SECONDS = 0.3  # longer than an execution waits that finds a warm driver
CHECK_SECONDS = 10.0  # between looks for changed code and for folders of ended spares
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # after hosts that ended by themselves
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("driver", "pipelines", "plugins")
PREFIX, LOG, KEEPER, OFFER = "spare-", "spare.log", "spares.pid", "spares.json"
# of Arrow's memory and of numpy, which a fork would not survive
_WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}

log = structlog.get_logger()


class _Pauses:
    """Growing pauses after hosts that ended by themselves."""

    def __init__(self) -> None:
        self._ends_at = 0.0
        self.next = FIRST_PAUSE

    def begin(self) -> None:
        self._ends_at = time.monotonic() + self.next
        self.next = min(2 * self.next, LONGEST_PAUSE)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at


class ForkHost:
    """The host that forks drivers."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None
        self._fingerprint = ""
        self._pauses = _Pauses()

    def keep(self, fingerprint: str) -> None:
        """Replace the host where it has ended or the code has changed. Its forks go on."""
        if self._process is not None and self._process.poll() is not None:
            log.warning("the host of forks ended", exit_code=self._process.returncode, pause=self._pauses.next)
            self._pauses.begin()
            self.close()
        if fingerprint != self._fingerprint:
            self.close()
        if self._process is None and self._pauses.is_over:
            self._process, self._fingerprint = self._start(), fingerprint

    def close(self) -> None:
        """End the host: its standard input ends."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._data / "forks.log").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "driver", "--forks", str(self._data)],
                cwd=self._data,
                env={**build_environment(str(self._data / "scratch")), **_WITHOUT_THREADS},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


@dataclass(slots=True)
class _Spare:
    name: str
    process: subprocess.Popen[bytes]
    fingerprint: str
    libraries: frozenset[str]
    is_taken: bool = False  # an execution has it, or had it

    def has_ended(self) -> bool:
        if self.process.poll() is None:
            return False
        self.process.communicate()  # closes the pipe
        return True


class HostKeeper:
    """Starts and replaces the hosts of a data folder. Those without an execution end with the process that has this.

    Spares have loaded the Java libraries of the setting, and those that recent executions in the database have used.
    """

    def __init__(self, settings: Settings, queue: DriverQueue, database: Database | None = None) -> None:
        self._data = settings.data.resolve()
        self._settings = settings
        self._queue = queue
        self._database = database
        self._overhead = OverheadMeter(database) if database else None
        self._measured_at = time.monotonic()
        self._outages = OutageLog()
        self._wanted = count_spares(settings)
        self._keeps_spares = self._wanted > 0 or is_local_master(settings.spark.master)
        self._most = count_drivers(settings, EngineName.SPARK) or max(1, self._wanted)
        self._libraries = frozenset(settings.spares.libraries)
        self._forks = ForkHost(self._data)
        self._spares: list[_Spare] = []
        self._fingerprint = ""
        self._checked_at = -CHECK_SECONDS
        self._pauses = _Pauses()

    def run(self, stop: threading.Event) -> None:
        """Keep the hosts until `stop` is set, then end those that no execution has."""
        with ExitStack() as stack:
            if self._keeps_spares:
                lock = stack.enter_context(hold_pidfile(self._data / KEEPER))
                os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            while not stop.is_set():
                try:
                    self.keep()
                except OSError as error:  # such as a full disk
                    log.warning("no driver could be started", reason=str(error))
                    stop.wait(CHECK_SECONDS)
                stop.wait(POLL_SECONDS)
            self.close()

    def keep(self) -> None:
        """Replace the hosts that have been taken, have ended or are out of date."""
        is_due = time.monotonic() - self._checked_at >= CHECK_SECONDS
        if is_due:
            self._checked_at = time.monotonic()
            self._fingerprint = compute_fingerprint()
        self._forks.keep(self._fingerprint)
        if self._keeps_spares:
            self._measure()
            if is_due:
                self._prepare_spares()
            self._keep_spares()

    def _prepare_spares(self) -> None:
        """Remove folders of ended spares, and describe the next one: others start a process."""
        alive = list_alive(self._data / "spares")
        for folder in (self._data / "scratch").glob(f"{PREFIX}*"):  # for instance after a launcher was killed
            if folder.name not in alive:
                self._remove(folder.name)
        self._outages.run_step(self._find_libraries)
        self._build_offer().write(self._data / OFFER)
        self._store_overhead()

    def _keep_spares(self) -> None:
        self._spares = [spare for spare in self._spares if self._check(spare)]
        due = self._wanted or self._count_due()
        while sum(not each.is_taken for each in self._spares) < due and self._pauses.is_over:
            self._spares.append(self._start())
        if sum(each.is_taken for each in self._spares) > 2 * self._most:  # they hold memory
            self._end_idle()

    def _count_due(self) -> int:
        """Return how many spares are due without the setting: one for an execution that waits in vain, where it fits.

        A spare that fits no waiting execution ends: its memory is theirs.
        """
        waiting = self._queue.list_waiting(WAITED_SECONDS)
        if not any(self._build_offer().fits(each) for each in waiting):
            self._spares = [each for each in self._spares if each.is_taken or not (waiting and self._end(each))]
            return 0
        return int(count_working(self._data, EngineName.SPARK) < self._most)

    def _measure(self) -> None:
        began_at, self._measured_at = self._measured_at, time.monotonic()
        if self._overhead:
            folders = [self._get_folder(each.name) for each in self._spares]
            self._overhead.measure(folders, self._measured_at - began_at)

    def _store_overhead(self) -> None:
        if self._overhead:
            self._outages.run_step(self._overhead.store)

    def _find_libraries(self) -> None:
        """Add the libraries of recent executions that this machine has."""
        if self._database is not None:
            with self._database.read() as session:
                used = load_used_libraries(session)
            self._libraries |= {name for name in used - self._libraries if has_jars(name)}

    def close(self) -> None:
        """End the hosts, but no execution: its spare watches its pipe again when it has ended."""
        self._measure()
        self._store_overhead()
        for spare in self._spares:
            if claim(self._get_folder(spare.name)) or not self._is_taken(spare):
                self._kill(spare)
            else:
                with suppress(subprocess.TimeoutExpired):
                    spare.process.communicate(timeout=0.1)
        self._spares.clear()
        self._forks.close()

    def _check(self, spare: _Spare) -> bool:
        """Return whether the spare is still there; end one without an execution that is out of date."""
        if not spare.is_taken and self._is_taken(spare):
            spare.is_taken, self._pauses = True, _Pauses()
        if spare.has_ended():
            reason = self._read_last_line(spare)
            if spare.is_taken:
                log.info("a driver has ended", spare=spare.name, reason=reason)
            else:
                signal_group(spare.process.pid, signal.SIGKILL)  # a JVM that was just starting would be left
                log.warning("a spare driver ended", reason=reason, pause=self._pauses.next)
                self._pauses.begin()
            self._remove(spare.name)
            return False
        is_outdated = spare.fingerprint != self._fingerprint or spare.libraries != self._libraries
        if not is_outdated or not self._end(spare):
            return True
        log.info("a spare driver is replaced: code or libraries have changed", spare=spare.name)
        return False

    def _end_idle(self) -> None:
        """End the driver that has been without an execution for the longest time, if there is one."""
        waiting = [(_read_time(self._get_folder(each.name) / SOCKET), each) for each in self._spares if each.is_taken]
        for at, spare in sorted(waiting, key=lambda each: each[0]):
            if at and self._end(spare):
                self._spares.remove(spare)
                return

    def _end(self, spare: _Spare) -> bool:
        """End a spare that nobody has claimed; return whether it was ended."""
        if not claim(self._get_folder(spare.name)):
            return False
        self._kill(spare)
        return True

    def _kill(self, spare: _Spare) -> None:
        kill_trees(list_tree(spare.process.pid))
        signal_group(spare.process.pid, signal.SIGKILL)  # a JVM that was just starting
        spare.process.communicate()
        self._remove(spare.name)

    def _start(self) -> _Spare:
        name = f"{PREFIX}{secrets.token_hex(4)}"
        folder, pidfile = self._get_folder(name), self._data / "spares" / name
        pidfile.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", "driver", "--host", str(folder)]
        with hold_pidfile(pidfile) as lock:
            folder.mkdir(mode=0o700, parents=True)
            self._build_offer().write(folder / HOST_FILE)
            with (folder / LOG).open("wb") as output:
                process = subprocess.Popen(
                    ["/bin/sh", "-c", RECORD_AND_RUN, str(pidfile), *command],
                    cwd=self._data,
                    env=build_environment(str(folder)),
                    stdin=subprocess.PIPE,  # its end shows the spare that this process has ended
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
        return _Spare(name, process, self._fingerprint, self._libraries)

    def _build_offer(self) -> HostSpec:
        return HostSpec(
            spark=build_spark_spec(self._settings, self._libraries),
            memory=self._settings.spares.driver_memory or self._settings.spark.driver_memory,
            executions=self._settings.drivers.executions if is_local_master(self._settings.spark.master) else 1,
            idle_seconds=60 * self._settings.drivers.idle_minutes,
        )

    def _is_taken(self, spare: _Spare) -> bool:
        """Return whether an execution has it, or had it: then it is an organization's, or its folder is deleted."""
        folder = self._get_folder(spare.name)
        with suppress(FileNotFoundError):
            return (folder / TAKEN).exists() or read_host(folder / HOST_FILE).organization_id is not None
        return True

    def _read_last_line(self, spare: _Spare) -> str:
        with suppress(OSError):
            lines = (self._get_folder(spare.name) / LOG).read_text(errors="replace").splitlines()
            return lines[-1] if lines else ""
        return ""

    def _remove(self, name: str) -> None:
        shutil.rmtree(self._get_folder(name), ignore_errors=True)
        (self._data / "spares" / name).unlink(missing_ok=True)

    def _get_folder(self, name: str) -> Path:
        return self._data / "scratch" / name


def _read_time(path: Path) -> float:
    stat = _stat(path)
    return stat.st_mtime if stat else 0.0


def compute_fingerprint() -> str:
    """Return a digest that changes with Python, the installed packages, plugins and the engine's own code."""
    site = Path(sysconfig.get_paths()["purelib"])
    folders = [*(ROOT / name for name in PACKAGES), *_list_plugin_packages(site.stat().st_mtime_ns)]
    code = {path for folder in folders for path in _list_code(folder)}
    found = [os.path.realpath(sys.executable), str(site), *sorted(code)]
    parts = [f"{path} {stat.st_mtime_ns} {stat.st_size}" for path in found if (stat := _stat(path))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _list_code(folder: Path) -> Iterator[str]:
    for parent, _, names in os.walk(folder):  # half the cost of `rglob`, every ten seconds
        yield from (os.path.join(parent, name) for name in names if name.endswith(".py"))


@lru_cache(maxsize=1)
def _list_plugin_packages(_installed_at: int) -> tuple[Path, ...]:
    """Return the packages of plugins that are outside Python's package folders, where they may be edited."""
    folders = map(Path, find_plugin_folders())
    names = {point.module.partition(".")[0] for point in find_entry_points()}
    return tuple(folder / name for folder in folders for name in names if (folder / name).is_dir())


def _stat(path: Path | str) -> os.stat_result | None:
    with suppress(OSError):
        return os.stat(path)
    return None
