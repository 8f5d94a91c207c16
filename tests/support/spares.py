"""Spare drivers of a data folder, kept as the launcher keeps them."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.infra.pidfile import read_alive_pid
from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec
from driver.host_folder import READY, SOCKET
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import Compute, DriverHandle
from pipelines.contract.request import RunRequest
from tests.support.run_requests import make_request
from tests.support.service import PATIENCE_SECONDS, wait_until


@contextmanager
def keep_spares(compute: LocalCompute) -> Generator[None]:
    """Keep the spares to which this gives executions."""
    stop = threading.Event()
    keeper = threading.Thread(target=compute.hosts.run, args=(stop,))
    keeper.start()
    try:
        wait_until(lambda: compute.hosts._offer, PATIENCE_SECONDS)
        yield
    finally:
        stop.set()
        keeper.join()


def launch(compute: Compute, spec: RunRequest, secrets: Mapping[str, str], *more: Mapping[str, str]) -> DriverHandle:
    """Give the execution to a driver; return the handle."""
    launched = compute.launch(spec, secrets, *more)
    return launched.handle


def wait_for_spare(data: Path, ready: bool = False) -> Path:
    """The folder of a spare that can be taken, also while it starts unless it shall be `ready`."""
    wait_until(lambda: find_spares(data, ready), PATIENCE_SECONDS)
    return find_spares(data, ready)[0]


def find_spares(data: Path, ready: bool = False) -> list[Path]:
    folders = (path.parent for path in (data / "scratch").glob(f"spare-*/{SOCKET}"))
    return [folder for folder in folders if not ready or (folder / READY).exists()]


def make_spec(settings: Settings, execution: str, pipeline: str, **changes: Any) -> RunRequest:
    folder = settings.data.parent
    fields: dict[str, Any] = {
        "organization_id": f"organization-of-{execution}",
        "pipeline_yaml": pipeline,
        "output": {"path": str(folder / execution)},
        "local_folders": [str(folder)],
        "spark": build_spark_spec(settings),
        "begins_with_spark": True,
        "fetch": {"allow_networks": ["127.0.0.0/8"]},
    }
    return make_request(execution, **{**fields, **changes})


def get_pid(settings: Settings, handle: DriverHandle) -> int:
    """Wait for the driver to record its pid, and return it."""
    path = settings.data / "drivers" / handle.name
    wait_until(lambda: read_alive_pid(path) is not None, PATIENCE_SECONDS)
    pid = read_alive_pid(path)
    assert pid is not None
    return pid
