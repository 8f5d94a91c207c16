"""Hosts for executions among those that the keeper has started: a fork, or a driver with Spark.

Executions of one organization with the same Spark settings share a pool of drivers with Spark; nobody else gets them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from core.infra.pidfile import is_alive, read_alive_pid
from core.infra.settings import Settings
from driver.host_folder import FORKS, HOST_FILE, READY, TAKEN, HostSpec, claim, read_host
from driver.transport import HostRequest, send_to_socket
from orchestration.compute.host_keeper import KEEPER, OFFER, PREFIX
from orchestration.compute.processes import kill_trees, list_tree
from orchestration.compute.protocol import DriverSource
from pipelines.contract.request import RunRequest

PATIENCE = 30.0  # from the time when a driver may start to the keeper's next spare; then the run starts one itself
SOON = 10.0  # a driver of the organization may be free again by then: sooner than another one has started

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Candidate:
    folder: Path
    spec: HostSpec
    is_ready: bool
    is_free: bool
    at: float


class DriverPools:
    """Finds drivers with Spark in a data folder."""

    def __init__(self, settings: Settings) -> None:
        self._data = settings.data.resolve()

    def find(self, spec: RunRequest, waited: float) -> Iterator[tuple[Path, DriverSource]]:
        """Yield the folders of drivers that may be taken now, the best first."""
        fitting = [each for each in self._list_candidates() if _fits(each.spec, spec)]
        own = [each for each in fitting if each.spec.organization_id]
        is_soon = waited < SOON and any(not each.is_free and each.spec.executions > 1 for each in own)
        for each in sorted(fitting, key=lambda each: (each not in own, not each.is_ready, each.at)):
            if each.is_free and (each in own or each.is_ready or not is_soon):
                yield each.folder, DriverSource.WARM if each in own else DriverSource.SPARE

    def may_start(self, spec: RunRequest, waited: float) -> bool:
        """Return whether a new process is due: nobody keeps spares, or no spare fits the execution."""
        if spec.has_own_process or not is_alive(self._data / KEEPER) or waited > PATIENCE:
            return True
        with suppress(FileNotFoundError):  # the keeper is just beginning
            return not read_host(self._data / OFFER).fits(spec.spark)
        return False

    def _list_candidates(self) -> Iterator[_Candidate]:
        for folder in (self._data / "scratch").glob(f"{PREFIX}*"):
            with suppress(FileNotFoundError, ValueError):  # it has just ended, or is just beginning
                at, is_free = (folder / HOST_FILE).stat().st_mtime, not (folder / TAKEN).exists()
                yield _Candidate(folder, read_host(folder / HOST_FILE), (folder / READY).exists(), is_free, at)


def fork_driver(data: Path, request: HostRequest, log_file: int, lock: int) -> bool:
    """Let the host of forks start a driver, whose pid is then in the locked pidfile; return False without an answer."""
    return (data / FORKS).exists() and send_to_socket(data / FORKS, request, log_file, lock)


def give_execution(data: Path, folder: Path, request: HostRequest, scratch: Path, log_file: int, lock: int) -> bool:
    """Give an execution to the driver of this folder; return False when that is taken, or does not answer.

    Then its pid is in the pidfile that `lock` has locked, and `scratch` is a link to its folder.
    """
    pid = read_alive_pid(data / "spares" / folder.name)
    if pid is None or not claim(folder):
        return False
    scratch.symlink_to(folder.name)
    os.pwrite(lock, f"{pid}\n".encode(), 0)  # first: from now on the execution's cancel ends the driver
    if send_to_socket(folder / TAKEN, request, log_file, lock):
        return True
    log.warning("a spare driver does not answer", spare=folder.name)
    os.ftruncate(lock, 0)
    scratch.unlink()
    kill_trees(list_tree(pid))
    return False


def _fits(offered: HostSpec, spec: RunRequest) -> bool:
    wanted = (None, spec.organization_id) if spec.reuses_driver else (None,)
    if spec.has_own_process:
        return False
    if offered.organization_id not in wanted:
        return False
    return offered.fits(spec.spark)
