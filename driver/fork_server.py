"""`python -m driver --forks FOLDER`: a warm process, of which each execution without Spark is a fork.

A fork begins its execution after some milliseconds, where a new process takes a second to import the engine. The server
has no threads, no connections and no plugins, which a fork would not survive or should not have. It ends with the
process that holds the other end of its standard input; its forks go on.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from traceback import print_exc
from typing import NoReturn

from driver.execution import execute
from driver.logs import MaskedOutput, configure_logging
from driver.spare_socket import ACCEPTED, FORKS, STANDARD_INPUT, ReceivedRequest, bind, receive_request
from pipelines.contract.request import read_request
from pipelines.local.runner import skip_pandas
from pipelines.registry import import_engine

_MODULES = (  # those that an execution loads when it needs them, but not DuckDB: it starts a thread, which a fork lacks
    "dagster_pipes",
    "httpx",
    "pipelines.browser.factory",
    "pipelines.sql.pipeline_query",
    "pipelines.stages.sql_tables",
    "pyarrow.compute",
    "pyarrow.parquet",
)
_BACKLOG = 128


def serve_forks(folder: Path) -> int:
    """Fork a process for each request, until standard input ends."""
    import_engine()
    for name in _MODULES:
        import_module(name)
    skip_pandas()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    gc.freeze()
    with bind(folder, FORKS, _BACKLOG) as server:
        while True:
            readable, _, _ = select.select([server, STANDARD_INPUT], [], [])
            if server not in readable:
                return 0
            connection, _ = server.accept()
            with connection:
                taken = receive_request(connection)
                if taken is None:  # the sender has died
                    continue
                if os.fork() == 0:
                    server.close()
                    _run(taken, connection)
                os.close(taken.log)
                os.close(taken.lock)


def _run(taken: ReceivedRequest, connection: socket.socket) -> NoReturn:
    """In the fork: run the execution and exit. The pidfile stays locked until then."""
    exit_code = 1
    try:
        if _is_abandoned(connection):
            os._exit(exit_code)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.ftruncate(taken.lock, 0)
        os.pwrite(taken.lock, f"{os.getpid()}\n".encode(), 0)
        connection.sendall(ACCEPTED)
        connection.close()
        _become_driver(taken)
        with MaskedOutput() as output:
            exit_code = execute(read_request(Path(taken.request.spec)), output)
    except BaseException:
        print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _is_abandoned(connection: socket.socket) -> bool:
    """Return whether the sender has given up: it starts a process of its own, whose pidfile this is."""
    hung_up = select.poll()
    hung_up.register(connection, 0)
    return bool(hung_up.poll(0))


def _become_driver(taken: ReceivedRequest) -> None:
    """Take the environment, the log and the folder for temporary files of a driver of one's own."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STANDARD_INPUT)
    for standard in (1, 2):
        os.dup2(taken.log, standard)
    os.close(nothing)
    os.close(taken.log)
    os.environ.clear()
    os.environ.update(taken.request.environment)
    time.tzset()
    tempfile.tempdir = None
    random.seed()
    configure_logging()
