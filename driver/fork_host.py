"""The host of forks: a warm process, of which each execution without Spark is a fork.

A fork begins its execution after some milliseconds, where a new process takes a second to import the engine. The host
has no threads, no connections and no plugins of others, which a fork would not survive or should not have, and reads no
request: the fork does. It ends with the process that holds the other end of its standard input; its forks go on.
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
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from traceback import print_exc
from typing import NoReturn

from driver.execution import execute
from driver.logs import MaskedOutput, configure_logging
from driver.transport import STANDARD_INPUT, KeeperEnded, Received, UnixListener, accept_request, receive_request
from pipelines.local.runner import skip_pandas
from pipelines.registry import load_own_plugins

_MODULES = (  # those that an execution loads when it needs them, but not DuckDB: it starts a thread, which a fork lacks
    "dagster_pipes",
    "pipelines.browser.factory",
    "pipelines.sql.pipeline_query",
    "pipelines.stages.sql_tables",
    "pyarrow.compute",
    "pyarrow.parquet",
)
_BACKLOG = 128


def serve_forks(folder: Path) -> int:
    """Fork a process for each request, until standard input ends."""
    for name in _MODULES:
        import_module(name)
    load_own_plugins()
    skip_pandas()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    gc.freeze()
    listener = UnixListener(folder, _BACKLOG)
    with suppress(KeeperEnded):
        while connection := listener.accept():
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _run(connection)
    return 0


def _run(connection: socket.socket) -> NoReturn:
    """In the fork: run the execution and exit. The pidfile stays locked until then."""
    exit_code = 1
    try:
        received = _receive(connection)
        if received is not None:
            _become_driver(received)
            with MaskedOutput() as output:
                exit_code = execute(received.request.spec, output)
    except BaseException:
        print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _receive(connection: socket.socket) -> Received | None:
    """Accept the request, unless its sender has given up: it starts a process then, whose pidfile this is."""
    with connection, suppress(OSError):
        received = receive_request(connection)
        if received is None or received.lock is None or _is_abandoned(connection):
            return None
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.ftruncate(received.lock, 0)
        os.pwrite(received.lock, f"{os.getpid()}\n".encode(), 0)
        accept_request(connection)
        return received
    return None


def _is_abandoned(connection: socket.socket) -> bool:
    hung_up = select.poll()
    hung_up.register(connection, 0)
    return bool(hung_up.poll(0))


def _become_driver(received: Received) -> None:
    """Take the environment, the log and the folder for temporary files of a driver of one's own."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STANDARD_INPUT)
    os.close(nothing)
    if received.log is not None:
        for standard in (1, 2):
            os.dup2(received.log, standard)
        os.close(received.log)
    os.environ.clear()
    os.environ.update(received.request.environment)
    time.tzset()
    tempfile.tempdir = None
    random.seed()
    configure_logging()
