"""The hosts of drivers on this machine (host.py), kept by the launcher: one that forks them, and spares with Spark.

A spare knows nothing of any organization before its first execution, serves others of the same one afterwards, and is
replaced when it is taken.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import structlog

from core.infra.background import OutageLog
from core.infra.database import Database
from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec, load_used_libraries
from core.lifecycle.usage.overhead import add_overhead
from driver.host_folder import SOCKET, HostSpec
from orchestration.compute.capacity import count_drivers, count_spares, count_working
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.host import Host, remove_ended, start_host
from orchestration.compute.protocol import DriverSource
from pipelines.contract.request import RunRequest
from pipelines.language.engines import EngineName
from pipelines.plugin import find_entry_points
from pipelines.registry import find_plugin_folders
from pipelines.spark.cluster import is_local_master
from pipelines.spark.jars import has_jars

POLL_SECONDS = 0.1
WAITED_SECONDS = 0.3  # longer than an execution waits that finds a warm driver
CHECK_SECONDS = 10.0  # between looks for changed code and for folders of ended hosts
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # after hosts that ended by themselves
PATIENCE = 30.0  # from the time when a driver may start to the keeper's next spare; then the run starts one itself
SOON = 10.0  # a driver of the organization may be free again by then: sooner than another one has started
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("driver", "pipelines", "plugins")

log = structlog.get_logger()
MILLISECONDS = 1000


class _Pauses:
    """Growing pauses after hosts that ended by themselves."""

    def __init__(self) -> None:
        self._ends_at = 0.0
        self.next = FIRST_PAUSE

    def begin(self) -> None:
        self._ends_at = time.monotonic() + self.next
        self.next = min(2 * self.next, LONGEST_PAUSE)

    def end(self) -> None:
        self._ends_at, self.next = 0.0, FIRST_PAUSE

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at


class HostKeeper:
    """Starts and replaces the hosts of a data folder, and finds one for an execution.

    Hosts without an execution end with the process that has this. Spares have loaded the Java libraries of the setting,
    and those that recent executions in the database have used.
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
        self._offer: HostSpec | None = None  # the next spare, while spares are kept
        self.forks: Host | None = None  # its forks are drivers without Spark
        self._spares: list[Host] = []
        self._fingerprint = ""
        self._checked_at = -CHECK_SECONDS
        self._fork_pauses, self._pauses = _Pauses(), _Pauses()

    def run(self, stop: threading.Event) -> None:
        """Keep the hosts until `stop` is set, then end those that no execution has."""
        if self._keeps_spares:
            self._offer = self._build_offer()  # from now on an execution waits for a spare that fits it
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
        self._keep_forks()
        if self._keeps_spares:
            self._measure()
            if is_due or self._offer is None:
                self._outages.run_step(self._find_libraries)
                self._offer = self._build_offer()
                self._store_overhead()
            self._keep_spares(self._offer)
        if is_due:
            remove_ended(self._data)

    def close(self) -> None:
        """End the hosts, but no execution: its host watches its pipe again when it has ended."""
        self._offer = None
        self._measure()
        self._store_overhead()
        hosts = [*self._spares, *filter(None, [self.forks])]
        for host in hosts:
            host.release()
        for host in hosts:
            if not host.is_used or host.claim():
                self._end(host)
        self._spares, self.forks = [], None

    def find(self, spec: RunRequest, waited: float) -> Iterator[tuple[Host, DriverSource]]:
        """Yield the hosts with Spark that may be claimed for an execution now, the best first.

        Executions of one organization with the same Spark settings share them; nobody else gets them.
        """
        fitting = [each for each in self._spares if each.fits(spec)]
        is_soon = waited < SOON and any(each.is_used and each.is_shared and not each.is_free for each in fitting)
        for each in sorted(fitting, key=lambda each: (not each.is_used, not each.is_ready)):
            if each.is_free and (each.is_used or each.is_ready or not is_soon):
                yield each, DriverSource.WARM if each.is_used else DriverSource.SPARE

    def may_start(self, spec: RunRequest, waited: float) -> bool:
        """Return whether a new process is due: nobody keeps spares, or no spare fits the execution."""
        return spec.has_own_process or self._offer is None or waited > PATIENCE or not self._offer.fits(spec.spark)

    def retire(self, name: str) -> None:
        """Give no other execution to a host whose execution is cancelled: the kill may come after its end."""
        for host in self._spares:
            if host.name == name:
                host.is_retired = True

    def _keep_forks(self) -> None:
        host = self.forks
        if host is not None and host.has_ended():
            self._report_end(host, self._fork_pauses)
            self.forks = None
        elif host is not None and host.fingerprint != self._fingerprint:
            self._end(host)
            self.forks = None
        if self.forks is None and self._fork_pauses.is_over:
            self.forks = start_host(self._data, HostSpec(), self._fingerprint)

    def _keep_spares(self, offer: HostSpec) -> None:
        self._spares = [host for host in self._spares if self._check(host, offer)]
        due = self._wanted or self._count_due(offer)
        while sum(not each.is_used for each in self._spares) < due and self._pauses.is_over:
            self._spares.append(start_host(self._data, offer, self._fingerprint))
        if sum(each.is_used for each in self._spares) > 2 * self._most:  # they hold memory
            self._end_idle()

    def _count_due(self, offer: HostSpec) -> int:
        """Return how many spares are due without the setting: one for an execution that waits in vain, where it fits.

        A spare that fits no waiting execution ends: its memory is theirs.
        """
        waiting = self._queue.list_waiting(WAITED_SECONDS)
        if not any(offer.fits(each) for each in waiting):
            self._spares = [each for each in self._spares if each.is_used or not (waiting and self._end_free(each))]
            return 0
        return int(count_working(self._data, EngineName.SPARK) < self._most)

    def _check(self, host: Host, offer: HostSpec) -> bool:
        """Return whether the host is still there; end one without an execution that is out of date."""
        if host.has_ended():
            self._report_end(host, self._pauses)
            return False
        is_current = host.fingerprint == self._fingerprint and host.spec == offer and not host.is_retired
        if is_current or not self._end_free(host):
            return True
        log.info("a driver is replaced: code or libraries have changed, or it was cancelled", host=host.name)
        return False

    def _report_end(self, host: Host, pauses: _Pauses) -> None:
        reason = host.read_last_line()
        if host.is_used:
            log.info("a driver has ended", host=host.name, reason=reason)
            pauses.end()
        else:
            log.warning("a host of drivers ended", host=host.name, reason=reason, pause=pauses.next)
            pauses.begin()
        self._end(host)

    def _end_idle(self) -> None:
        """End the driver that has been without an execution for the longest time, if there is one."""
        waiting = [(_read_time(each.folder / SOCKET), each) for each in self._spares if each.is_used]
        for at, host in sorted(waiting, key=lambda each: each[0]):
            if at and self._end_free(host):
                self._spares.remove(host)
                return

    def _end_free(self, host: Host) -> bool:
        """End a host that nobody has claimed; return whether it was ended."""
        if not host.claim():
            return False
        self._end(host)
        return True

    def _end(self, host: Host) -> None:
        host.end()
        host.remove()

    def _measure(self) -> None:
        began_at, self._measured_at = self._measured_at, time.monotonic()
        if self._overhead:
            self._overhead.measure(self._spares, self._measured_at - began_at)

    def _store_overhead(self) -> None:
        if self._overhead:
            self._outages.run_step(self._overhead.store)

    def _find_libraries(self) -> None:
        """Add the libraries of recent executions that this machine has."""
        if self._database is not None:
            with self._database.read() as session:
                used = load_used_libraries(session)
            self._libraries |= {name for name in used - self._libraries if has_jars(name)}

    def _build_offer(self) -> HostSpec:
        return HostSpec(
            spark=build_spark_spec(self._settings, self._libraries),
            memory=self._settings.spares.driver_memory or self._settings.spark.driver_memory,
            executions=self._settings.drivers.executions if is_local_master(self._settings.spark.master) else 1,
            idle_seconds=60 * self._settings.drivers.idle_minutes,
        )


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


@dataclass(slots=True)
class _Seconds:
    start: float = 0.0
    idle: float = 0.0


class OverheadMeter:
    """Measures drivers, and adds their time to that of their organizations in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seconds: dict[str, _Seconds] = {}

    def measure(self, hosts: Iterable[Host], seconds: float) -> None:
        """Count the seconds since the last call for these drivers."""
        for host in hosts:
            if host.organization_id is not None:
                measured = self._get_seconds(host.organization_id)
                measured.start += host.start_seconds
                measured.idle += seconds if host.listens else 0.0
                host.start_seconds = 0.0
            elif not host.is_ready:
                host.start_seconds += seconds

    def store(self) -> None:
        """Add the measured time to the stored one; raise Unavailable and keep it when the database is away."""
        measured = {name: each for name, each in self._seconds.items() if each.start or each.idle}
        if not measured:
            return
        with self._database.write(durable=False) as session:
            for name, each in measured.items():
                add_overhead(session, name, round(each.start * MILLISECONDS), round(each.idle * MILLISECONDS))
        self._seconds = {}

    def _get_seconds(self, organization_id: str) -> _Seconds:
        return self._seconds.setdefault(organization_id, _Seconds())
