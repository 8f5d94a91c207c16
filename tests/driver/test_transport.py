"""How executions get to a driver's host over real connections, and who may give it one."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.infra.settings import Settings
from driver import transport
from driver.host_folder import CERTIFICATE_FILE, HOST_FILE, SOCKET, TlsSpec, read_host
from driver.transport import HostRequest, TlsListener, UnixListener, send_to_pod, send_to_socket
from orchestration.compute.kubernetes.channel import build_certificate, build_channel_files, send_execution
from pipelines.contract.request import VERSION
from tests.support.run_requests import make_request
from tests.support.service import PATIENCE_SECONDS

HOST, POD = "127.0.0.1", "spindle-0190-1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, secret_key=32 * "k")  # pyright: ignore[reportArgumentType]


@pytest.fixture
def request_() -> HostRequest:
    return HostRequest(spec=make_request("second"), environment={"SPINDLE_EXECUTION_TOKEN": "whsec_canary"})


@pytest.fixture
def opened(settings: Settings, tmp_path: Path) -> Iterator[Callable[[], TlsListener]]:
    """Each call listens in the pod, as its driver does."""
    listeners: list[TlsListener] = []
    for name, text in build_channel_files(settings, POD).items():
        (tmp_path / name).write_text(text)

    def listen() -> TlsListener:
        spec = TlsSpec(token=read_token(tmp_path), port=0)
        listeners.append(TlsListener(spec, tmp_path / CERTIFICATE_FILE))
        return listeners[-1]

    yield listen
    for each in listeners:
        each.close()


def receive(listener: TlsListener, seconds: float = PATIENCE_SECONDS) -> HostRequest | None:
    received = listener.receive(seconds, lambda: True)
    return received.request if received else None


def test_the_service_gives_an_execution_to_its_pod(
    settings: Settings, opened: Callable[[], TlsListener], request_: HostRequest
) -> None:
    listener = opened()
    assert send_execution(settings, POD, HOST, request_, listener.port)
    assert not send_execution(settings, POD, HOST, request_, listener.port), "a driver takes one at a time"
    assert receive(listener) == request_
    assert not send_execution(settings, POD, HOST, request_, listener.port), "it listens again after the execution"


def test_another_service_can_give_it_none(
    settings: Settings, opened: Callable[[], TlsListener], request_: HostRequest
) -> None:
    listener, certificate = opened(), build_certificate(settings, POD)
    stranger = settings.replace(secret_key=None)
    assert not send_execution(stranger, POD, HOST, request_, listener.port)
    assert not send_to_pod((HOST, listener.port), POD, certificate, "0" * 64, request_)
    assert receive(listener, 0) is None


def test_a_request_of_a_later_version_does_not_end_its_host(
    settings: Settings, opened: Callable[[], TlsListener], request_: HostRequest
) -> None:
    listener = opened()
    later = request_.model_copy(update={"spec": request_.spec.model_copy(update={"version": VERSION + 1})})
    assert not send_execution(settings, POD, HOST, later, listener.port)
    assert send_execution(settings, POD, HOST, request_, listener.port)
    assert receive(listener) == request_


def test_a_request_is_sent_to_that_pod_alone(
    settings: Settings, opened: Callable[[], TlsListener], request_: HostRequest
) -> None:
    """A pod that has got another one's address is sent nothing."""
    listener = opened()
    assert not send_execution(settings, "spindle-0191-1", HOST, request_, listener.port)
    assert receive(listener, 0) is None
    assert build_certificate(settings, POD) != build_certificate(settings, "spindle-0191-1")


def read_token(folder: Path) -> str:
    host = read_host(folder / HOST_FILE)
    return host.tls.token if host.tls else ""


@contextmanager
def connect(listener: TlsListener) -> Iterator[ssl.SSLSocket]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((HOST, listener.port)) as plain, tls.wrap_socket(plain) as secured:
        secured.settimeout(PATIENCE_SECONDS)
        yield secured


def read_end(connection: socket.socket) -> bytes:
    """What a connection gets before it is closed."""
    try:
        return connection.recv(100)
    except OSError:
        return b""


def test_broken_connections_do_not_stop_it(
    settings: Settings, opened: Callable[[], TlsListener], request_: HostRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_TLS_SECONDS", 0.2)
    listener = opened()
    token = read_token(settings.data)
    with socket.create_connection((HOST, listener.port)) as silent:
        with socket.create_connection((HOST, listener.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            read_end(plain)
        for text in (f"{token}\n3\n{{}}", f"{token}\n2\n{{}}", f"{token}\nmany\n", "x" * 1000):
            with connect(listener) as connection:
                connection.sendall(text.encode())
                assert read_end(connection) == b""
        assert read_end(silent) == b""
    monkeypatch.undo()
    assert send_execution(settings, POD, HOST, request_, listener.port)
    assert receive(listener) == request_


def test_a_driver_stops_waiting_with_its_spark(opened: Callable[[], TlsListener]) -> None:
    assert opened().receive(600, lambda: False) is None


def test_an_execution_gets_to_a_host_in_a_folder_of_a_long_path(
    tmp_path: Path, request_: HostRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address of a socket has at most 107 bytes."""
    folder = tmp_path / ("long" * 50)
    folder.mkdir()
    listener = UnixListener(folder)
    with ThreadPoolExecutor() as pool, (folder / "log").open("wb") as log, pipe_of_keeper(monkeypatch):
        sent = pool.submit(send_to_socket, folder / SOCKET, request_, log.fileno(), log.fileno())
        received = listener.receive(PATIENCE_SECONDS, lambda: True)
        assert received is not None
        for each in filter(None, (received.log, received.lock)):
            os.close(each)
        assert (sent.result(), received.request) == (True, request_)
    assert [path.name for path in folder.iterdir()] == ["log"]


@contextmanager
def pipe_of_keeper(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Let the standard input of a host stay open."""
    end, kept = os.pipe()
    monkeypatch.setattr(transport, "STANDARD_INPUT", end)
    yield
    for each in (end, kept):
        os.close(each)
