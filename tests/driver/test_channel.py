"""The channel of a driver in a pod: who may give it an execution, over real connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.infra.settings import Settings
from driver import channel as channel_module
from driver.channel import CERTIFICATE_FILE, CHANNEL_FILE, Channel, ChannelSpec, PodRequest, send_request
from orchestration.compute.kubernetes.channel import build_certificate, build_channel_files, send_execution
from pipelines.contract.request import OutputSpec, RunRequest
from tests.support.service import PATIENCE_SECONDS

HOST, POD = "127.0.0.1", "spindle-0190-1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, secret_key=32 * "k")  # pyright: ignore[reportArgumentType]


@pytest.fixture
def request_() -> PodRequest:
    spec = RunRequest(
        execution_id="second",
        job_id="job",
        project_id="project",
        organization_id="organization",
        job_name="job",
        attempt=1,
        pipeline_yaml="pipeline: []",
        output=OutputSpec(path="s3://bucket/output"),
    )
    return PodRequest(spec=spec, environment={"SPINDLE_EXECUTION_TOKEN": "whsec_canary"})


@pytest.fixture
def opened(settings: Settings, tmp_path: Path) -> Iterator[Callable[[], Channel]]:
    """Each call opens the channel of the pod, as its driver does."""
    channels: list[Channel] = []
    for name, text in build_channel_files(settings, POD).items():
        (tmp_path / name).write_text(text)

    def open_channel() -> Channel:
        spec = ChannelSpec.model_validate_json((tmp_path / CHANNEL_FILE).read_bytes())
        channels.append(Channel(spec.model_copy(update={"port": 0}), tmp_path / CERTIFICATE_FILE))
        return channels[-1]

    yield open_channel
    for each in channels:
        each.close()


def receive(channel: Channel, seconds: float = PATIENCE_SECONDS) -> PodRequest | None:
    return channel.receive(seconds, lambda: True)


def test_the_service_gives_an_execution_to_its_pod(
    settings: Settings, opened: Callable[[], Channel], request_: PodRequest
) -> None:
    channel = opened()
    assert send_execution(settings, POD, HOST, request_, channel.port)
    assert not send_execution(settings, POD, HOST, request_, channel.port), "a driver takes one at a time"
    assert receive(channel) == request_
    assert not send_execution(settings, POD, HOST, request_, channel.port), "it listens again after the execution"


def test_another_service_can_give_it_none(
    settings: Settings, opened: Callable[[], Channel], request_: PodRequest
) -> None:
    channel, certificate = opened(), build_certificate(settings, POD)
    stranger = settings.replace(secret_key=None)
    assert not send_execution(stranger, POD, HOST, request_, channel.port)
    assert not send_request((HOST, channel.port), POD, certificate, "0" * 64, request_)
    assert receive(channel, 0) is None


def test_a_request_is_sent_to_that_pod_alone(
    settings: Settings, opened: Callable[[], Channel], request_: PodRequest
) -> None:
    """A pod that has got another one's address is sent nothing."""
    channel = opened()
    assert not send_execution(settings, "spindle-0191-1", HOST, request_, channel.port)
    assert receive(channel, 0) is None
    assert build_certificate(settings, POD) != build_certificate(settings, "spindle-0191-1")


@contextmanager
def connect(channel: Channel) -> Iterator[ssl.SSLSocket]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((HOST, channel.port)) as plain, tls.wrap_socket(plain) as secured:
        secured.settimeout(PATIENCE_SECONDS)
        yield secured


def read_end(connection: socket.socket) -> bytes:
    """What a connection gets before it is closed."""
    try:
        return connection.recv(100)
    except OSError:
        return b""


def test_broken_connections_do_not_stop_it(
    settings: Settings, opened: Callable[[], Channel], request_: PodRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "_SECONDS", 0.2)
    channel = opened()
    token = ChannelSpec.model_validate_json(build_channel_files(settings, POD)[CHANNEL_FILE]).token
    with socket.create_connection((HOST, channel.port)) as silent:
        with socket.create_connection((HOST, channel.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            read_end(plain)
        for text in (f"{token}\n3\n{{}}", f"{token}\n2\n{{}}", f"{token}\nmany\n", "x" * 1000):
            with connect(channel) as connection:
                connection.sendall(text.encode())
                assert read_end(connection) == b""
        assert read_end(silent) == b""
    monkeypatch.undo()
    assert send_execution(settings, POD, HOST, request_, channel.port)
    assert receive(channel) == request_


def test_a_driver_stops_waiting_with_its_spark(opened: Callable[[], Channel]) -> None:
    assert opened().receive(600, lambda: False) is None
