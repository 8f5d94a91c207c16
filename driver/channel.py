"""How a further execution gets to a driver in a pod: one request over TLS, with the execution's spec and variables.

The service accepts only the certificate of this pod. A request begins with the token of the pod, and is read only after
it. A connection may be anybody's: it has a thread and some seconds, and a failed one changes nothing.
"""

from __future__ import annotations

import hmac
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, NonNegativeInt, PositiveFloat, PositiveInt

from driver.spare_socket import ACCEPTED
from pipelines.contract.request import RunRequest, SpecPart

SPEC_FILE, ENVIRONMENT_FILE = "spec.json", "environment.json"  # of the first execution
CHANNEL_FILE, CERTIFICATE_FILE = "channel.json", "channel.pem"
PORT = 7443
MAX_REQUEST_BYTES = 16 * 2**20
_MAX_TOKEN_BYTES = 256
_MAX_CONNECTIONS = 16
_SECONDS = 5.0  # without a byte, after which an end of a connection gives up
_CHECK_SECONDS = 0.5


class ChannelSpec(SpecPart):
    """The channel of a driver in a pod: the token of requests, the number of executions, and the longest wait."""

    token: str
    executions: PositiveInt
    idle_seconds: PositiveFloat
    port: NonNegativeInt = PORT


class PodRequest(BaseModel):
    """An execution: its spec, and the variables of its environment, with secrets."""

    spec: RunRequest
    environment: Mapping[str, str]


class Channel:
    """Listens for one request, from its beginning until it is closed."""

    def __init__(self, spec: ChannelSpec, certificate: Path) -> None:
        self._token = spec.token.encode()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_3
        self._tls.load_cert_chain(certificate)
        self._server = _listen(spec.port)
        self._places = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._guard = threading.Lock()
        self._is_closed = False
        self._request: PodRequest | None = None
        self._received = threading.Event()
        self.port: int = self._server.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="channel", daemon=True)
        self._acceptor.start()

    def receive(self, seconds: float, is_alive: Callable[[], bool]) -> PodRequest | None:
        """Return the request, and close; None without one in this time, or when the driver is not `is_alive`."""
        deadline = time.monotonic() + seconds
        while not self._received.wait(_CHECK_SECONDS) and time.monotonic() < deadline and is_alive():
            pass
        self.close()
        return self._request

    def close(self) -> None:
        with self._guard:  # a request is accepted before, or not at all
            self._is_closed = True
        with suppress(OSError):  # it is closed
            self._server.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()  # the port is free for the next channel then

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
        connection.settimeout(_SECONDS)
        # ValueError: the JSON is invalid, and its text is not for the log
        with suppress(OSError, ValueError), self._tls.wrap_socket(connection, server_side=True) as tls:
            if request := self._read(tls):
                self._take(request, tls)
        self._places.release()

    def _read(self, tls: ssl.SSLSocket) -> PodRequest | None:
        with tls.makefile("rb") as stream:
            token = stream.readline(_MAX_TOKEN_BYTES).strip()
            if not hmac.compare_digest(token, self._token):
                return None
            size = int(stream.readline(_MAX_TOKEN_BYTES))
            text = stream.read(min(size, MAX_REQUEST_BYTES))
        return PodRequest.model_validate_json(text) if len(text) == size else None

    def _take(self, request: PodRequest, tls: ssl.SSLSocket) -> None:
        """Accept the request, unless there is one or the time is over; it counts once its sender has the answer."""
        with self._guard:
            if not self._is_closed and self._request is None:
                tls.sendall(ACCEPTED)
                self._request = request
                self._received.set()


def _listen(port: int) -> socket.socket:
    """Return a socket that listens at all addresses of the pod, of both families where it has both."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError):  # the node has turned it off
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def send_request(address: tuple[str, int], name: str, certificate: str, token: str, request: PodRequest) -> bool:
    """Send a request to the pod of this name; return False unless a pod with this certificate has accepted it."""
    text = request.model_dump_json(by_alias=True).encode()
    tls = ssl.create_default_context(cadata=certificate)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        with (
            socket.create_connection(address, _SECONDS) as connection,
            tls.wrap_socket(connection, server_hostname=name) as secured,
        ):
            secured.sendall(f"{token}\n{len(text)}\n".encode() + text)
            return secured.recv(len(ACCEPTED)) == ACCEPTED
    except OSError:
        return False
