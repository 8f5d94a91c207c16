"""How an execution gets to a driver's host: one request, over a Unix socket or over TLS.

A request is a line with the host's token, a line with a size, and the execution with its variables as JSON. On one
machine it follows two descriptors: the execution's log, and its pidfile, whose lock the host holds until the execution
has ended. Only this user can open the socket, so that the token is empty.

In a cluster the service accepts only the certificate of the pod. A connection may be anybody's: it has a thread and
some seconds, and a failed one changes nothing.
"""

from __future__ import annotations

import hmac
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel

from driver.host_folder import SOCKET, TlsSpec
from driver.unix_socket import bind, connect
from pipelines.contract.request import RunRequest
from pipelines.errors import RunError

STANDARD_INPUT = 0
_ACCEPTED = b"ok"
_MAX_REQUEST_BYTES = 16 * 2**20
_MAX_LINE_BYTES = 256
_MAX_CONNECTIONS = 16
_UNIX_SECONDS, _TLS_SECONDS = 2.0, 5.0  # without a byte, after which an end of a connection gives up
_UNIX_CHECK_SECONDS, _TLS_CHECK_SECONDS = 1.0, 0.5
_NO_TOKEN = ""


class HostRequest(BaseModel):
    """An execution: its spec, and the variables of its environment, with secrets."""

    spec: RunRequest
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Received:
    """A received request; on one machine with the descriptors of the execution's log and of its locked pidfile."""

    request: HostRequest
    log: int | None = None
    lock: int | None = None


class KeeperEnded(Exception):
    """The process that holds the other end of standard input has ended: nobody would replace the host any more."""


class Listener(Protocol):
    """Listens for the next execution of a host from its beginning on."""

    def receive(self, seconds: float | None, is_alive: Callable[[], bool]) -> Received | None:
        """Return a request, and listen no more; None without one in this time, or when the host is not `is_alive`."""
        ...


class UnixListener:
    """Listens in a folder, without a thread."""

    def __init__(self, folder: Path, backlog: int = 1) -> None:
        self._path = folder / SOCKET
        self._server = _bind(self._path, backlog)

    def accept(self, seconds: float | None = None) -> socket.socket | None:
        """Return the next connection, None after these seconds. Raises KeeperEnded."""
        readable, _, _ = select.select([self._server, STANDARD_INPUT], [], [], seconds)
        if self._server in readable:
            return self._server.accept()[0]
        if readable:
            raise KeeperEnded
        return None

    def receive(self, seconds: float | None, is_alive: Callable[[], bool]) -> Received | None:
        with self._server:
            connection = self._await(seconds, is_alive)
        self._path.unlink(missing_ok=True)  # a host with an execution cannot be found
        if connection is None:
            return None
        with connection, suppress(OSError):  # the sender has died
            if received := receive_request(connection):
                accept_request(connection)
                return received
        return None

    def close(self) -> None:
        self._server.close()

    def _await(self, seconds: float | None, is_alive: Callable[[], bool]) -> socket.socket | None:
        began = time.monotonic()
        while is_alive() and (seconds is None or time.monotonic() - began <= seconds):
            if connection := self.accept(min(_UNIX_CHECK_SECONDS, seconds or _UNIX_CHECK_SECONDS)):
                return connection
        return None


class TlsListener:
    """Listens at all addresses of a pod."""

    def __init__(self, spec: TlsSpec, certificate: Path) -> None:
        self._token = spec.token
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_3
        self._tls.load_cert_chain(certificate)
        self._server = _listen(spec.port)
        self._places = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._guard = threading.Lock()
        self._is_closed = False
        self._request: HostRequest | None = None
        self._received = threading.Event()
        self.port: int = self._server.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="requests", daemon=True)
        self._acceptor.start()

    def receive(self, seconds: float | None, is_alive: Callable[[], bool]) -> Received | None:
        began = time.monotonic()
        while not self._received.wait(_TLS_CHECK_SECONDS) and is_alive():
            if seconds is not None and time.monotonic() - began > seconds:
                break
        self.close()
        return Received(self._request) if self._request else None

    def close(self) -> None:
        with self._guard:  # a request is accepted before, or not at all
            self._is_closed = True
        with suppress(OSError):  # it is closed
            self._server.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()  # the port is free for the next listener then

    def _accept(self) -> None:
        with self._server:
            while True:
                try:
                    connection, _ = self._server.accept()
                except OSError:  # it was shut down
                    return
                if self._places.acquire(blocking=False):
                    threading.Thread(target=self._serve, args=(connection,), name="request", daemon=True).start()
                else:
                    connection.close()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_TLS_SECONDS)
        with suppress(OSError), self._tls.wrap_socket(connection, server_side=True) as tls:
            if request := _read(tls, self._token):
                self._take(request, tls)
        self._places.release()

    def _take(self, request: HostRequest, tls: ssl.SSLSocket) -> None:
        """Accept the request, unless there is one or the time is over; it counts once its sender has the answer."""
        with self._guard:
            if not self._is_closed and self._request is None:
                accept_request(tls)
                self._request = request
                self._received.set()


def receive_request(connection: socket.socket) -> Received | None:
    """Return the request of `send_to_socket`; None when its sender has stopped. Raises OSError when it has died."""
    connection.settimeout(_UNIX_SECONDS)
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
    if len(descriptors) != 2:
        return None
    for each in descriptors:
        os.set_inheritable(each, False)  # child processes must not keep the lock
    request = _read(connection, _NO_TOKEN)
    return Received(request, *descriptors) if request else None


def accept_request(connection: socket.socket) -> None:
    connection.sendall(_ACCEPTED)


def send_to_socket(path: Path, request: HostRequest, log: int, lock: int) -> bool:
    """Send the request to a socket; return False when it is not accepted. That host must then be killed."""
    with suppress(OSError), connect(path, _UNIX_SECONDS) as connection:
        socket.send_fds(connection, [b"\0"], [log, lock])
        return _send(connection, _NO_TOKEN, request)
    return False


def send_to_pod(address: tuple[str, int], name: str, certificate: str, token: str, request: HostRequest) -> bool:
    """Send a request to the pod of this name; return False unless a pod with this certificate has accepted it."""
    tls = ssl.create_default_context(cadata=certificate)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    with (
        suppress(OSError),
        socket.create_connection(address, _TLS_SECONDS) as connection,
        tls.wrap_socket(connection, server_hostname=name) as secured,
    ):
        return _send(secured, token, request)
    return False


def _send(connection: socket.socket, token: str, request: HostRequest) -> bool:
    text = request.model_dump_json(by_alias=True).encode()
    connection.sendall(f"{token}\n{len(text)}\n".encode() + text)
    return connection.recv(len(_ACCEPTED)) == _ACCEPTED


def _read(connection: socket.socket, token: str) -> HostRequest | None:
    """Return a whole request with this token; its text, also an invalid one, is not for the log."""
    with suppress(ValueError, RunError), connection.makefile("rb") as stream:
        if hmac.compare_digest(stream.readline(_MAX_LINE_BYTES).strip(), token.encode()):
            size = int(stream.readline(_MAX_LINE_BYTES))
            text = stream.read(min(size, _MAX_REQUEST_BYTES))
            return HostRequest.model_validate_json(text) if len(text) == size else None
    return None


def _bind(path: Path, backlog: int) -> socket.socket:
    """Return a socket that listens at this path, for this user only; nobody finds it before."""
    opening = path.with_name(f"{path.name}.opening")
    opening.unlink(missing_ok=True)
    server = bind(opening)
    opening.chmod(0o600)
    server.listen(backlog)
    opening.rename(path)
    return server


def _listen(port: int) -> socket.socket:
    """Return a socket that listens at all addresses of the pod, of both families where it has both."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError):  # the node has turned it off
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
