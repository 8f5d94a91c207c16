"""How an execution gets to a spare driver: a Unix socket in the spare's folder, and one request.

The process that renames the socket from SOCKET to TAKEN has the spare: nobody else can connect. The request is JSON,
after two descriptors: the execution's log, and its pidfile, whose lock the spare holds until the execution has ended. A
spare can be taken while it starts; the file READY means that Spark has started and the small job is done.

A driver that waits for another execution after its first has a new SOCKET, and in SPARE_FILE the only organization that
may have it. The cancel of an execution creates `name_cancel_mark` before the kill: a driver that finds it ends.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PositiveFloat, PositiveInt

from pipelines.contract.request import SparkSpec, SpecPart

SPARE_FILE, SOCKET, TAKEN, READY = "spare.json", "socket", "taken", "ready"
OWN_SPARK = "spark"  # in the scratch folder of a driver that starts Spark itself
FORKS = "forks.sock"  # the socket of the server of forks
ACCEPTED = b"ok"
STANDARD_INPUT = 0
_ANSWER_SECONDS = 2.0


class SpareSpec(SpecPart):
    """A driver without an execution: one with this `spark` may have it. The heap is its own (`memory`).

    It serves `executions` of one organization, whose id it has after the first, and waits `idle_seconds` for another.
    """

    spark: SparkSpec
    memory: str
    organization_id: str | None = None
    executions: PositiveInt = 1
    idle_seconds: PositiveFloat = 300

    @property
    def session_conf(self) -> dict[str, str]:
        return {**self.spark.conf, "spark.driver.memory": self.memory}

    def fits(self, wanted: SparkSpec) -> bool:
        """Return whether an execution with these settings may have it; more libraries than needed do no harm."""
        equal = self.spark.model_copy(update={"libraries": wanted.libraries}) == wanted
        return equal and {*wanted.libraries} <= {*self.spark.libraries}


def read_offer(path: Path) -> SpareSpec:
    """Return whose executions a driver serves; raise FileNotFoundError when it has ended."""
    return SpareSpec.model_validate_json(path.read_bytes())


class SpareRequest(BaseModel):
    """The execution: the path of its spec, and the variables of its environment, with secrets."""

    spec: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A received request, with the descriptors of the execution's log and of its locked pidfile."""

    request: SpareRequest
    log: int
    lock: int


def name_cancel_mark(execution_id: str, attempt: int) -> str:
    return f"cancelled-{execution_id}.{attempt}"


def claim(folder: Path) -> bool:
    """Reserve the spare of this folder; return False when it is not ready to be taken, or no longer."""
    try:
        (folder / SOCKET).rename(folder / TAKEN)
    except FileNotFoundError:
        return False
    return True


def send_execution(path: Path, request: SpareRequest, log: int, lock: int) -> bool:
    """Send the request to a socket; return False when it is not accepted. A claimed spare must then be killed."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(_shorten(path))
            text = request.model_dump_json().encode()
            socket.send_fds(connection, [text[:1]], [log, lock])
            connection.sendall(text[1:])
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(len(ACCEPTED)) == ACCEPTED
        except OSError:
            return False


class SpareSocket:
    """Waits for a request in a thread, so that a spare can be taken while it still starts.

    `received` is set before `ended`; it stays empty when the sender has died, and after `idle_seconds` without one.
    When the process that holds the other end of standard input ends, `close` is called: nobody would replace the spare
    any more.
    """

    def __init__(self, folder: Path, close: Callable[[], None], idle_seconds: float | None = None) -> None:
        self._folder = folder
        self._close = close
        self._idle_seconds = idle_seconds
        self._server = bind(folder, SOCKET, 1)
        self.received: ReceivedRequest | None = None
        self.ended = threading.Event()
        threading.Thread(target=self._wait, name="requests", daemon=True).start()

    def is_claimed(self) -> bool:
        return not (self._folder / SOCKET).exists()

    def _wait(self) -> None:
        readable = self._select(self._idle_seconds)
        if not readable and not claim(self._folder):
            readable = self._select(None)  # somebody has just claimed it
        if STANDARD_INPUT in readable and self._server not in readable:
            self._close()
            return
        try:
            if readable:
                self._receive()
            self._server.close()
        finally:
            self.ended.set()

    def _select(self, seconds: float | None) -> list[Any]:
        return select.select([self._server, STANDARD_INPUT], [], [], seconds)[0]

    def _receive(self) -> None:
        connection, _ = self._server.accept()
        self._server.close()
        with connection:
            self.received = receive_request(connection)
            if self.received is not None:
                connection.sendall(ACCEPTED)


def bind(folder: Path, name: str, backlog: int) -> socket.socket:
    """Return a socket that listens at this name in the folder, for this user only; nobody finds it before."""
    server, path = socket.socket(socket.AF_UNIX), folder / f"{name}.opening"
    path.unlink(missing_ok=True)
    server.bind(_shorten(path))
    path.chmod(0o600)
    server.listen(backlog)
    path.rename(folder / name)
    return server


def receive_request(connection: socket.socket) -> ReceivedRequest | None:
    """Return the request of `send_execution`; None when its sender has died, or has stopped."""
    connection.settimeout(_ANSWER_SECONDS)
    try:
        first, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
        with connection.makefile("rb") as rest:
            text = first + rest.read()
    except OSError:
        return None
    if len(descriptors) != 2:
        return None
    for each in descriptors:
        os.set_inheritable(each, False)  # child processes must not keep the lock
    log, lock = descriptors
    return ReceivedRequest(SpareRequest.model_validate_json(text), log, lock)


def _shorten(path: Path) -> str:
    """Return the path of a socket, absolute or relative, whichever is shorter: 107 bytes are the maximum."""
    return min(str(path), os.path.relpath(path), key=len)
