"""Serves the API: `python -m api` with SPINDLE_ settings; several processes share the port where these say so."""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn import _subprocess as uvicorn_processes  # pyright: ignore[reportPrivateUsage]

from api.app import create_app
from api.kit.http import HttpProtocol
from core.infra.heartbeats import Heartbeats
from core.infra.installation import exit_if_foreign
from core.infra.logs import configure
from core.infra.processes import LINUX, terminate_with_parent
from core.infra.settings import Settings

STOP_SECONDS = 10
HEALTHCHECK_SECONDS = 30  # a worker that is silent for so long is replaced: a loaded machine is slow, not dead


def main() -> None:
    settings = Settings()
    configure("api")
    exit_if_foreign(settings)
    options: dict[str, Any] = {
        "host": settings.api.host,
        "port": settings.api.port,
        "http": HttpProtocol,
        "access_log": False,
        "log_level": "warning",
        "server_header": False,
        "timeout_graceful_shutdown": STOP_SECONDS,
    }
    if settings.api.workers == 1:
        Heartbeats(settings.data).start_pulse("api")
        uvicorn.run(create_app(settings), **options)
    else:
        if LINUX:  # each worker would import everything
            uvicorn_processes.spawn = multiprocessing.get_context("fork")  # pyright: ignore[reportAttributeAccessIssue]
        workers = {"workers": settings.api.workers, "timeout_worker_healthcheck": HEALTHCHECK_SECONDS}
        uvicorn.run("api.__main__:worker", factory=True, **workers, **options)


def worker() -> FastAPI:
    """The application of one of several processes, which end with the one that started them, however that ends."""
    terminate_with_parent()
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:
        sys.exit("the process that started this worker has ended meanwhile")
    configure("api")
    return create_app(Settings())


if __name__ == "__main__":
    main()
