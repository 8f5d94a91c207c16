"""The coordinator's server: authentication, robots.txt, counts, many connections."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import ExitStack

import msgspec
import pytest

from pipelines.coordination.client import Connection, DriverGone
from pipelines.coordination.messages import Acquire, Counts, DriverMessage, Report, SiteRules, encode_frame
from pipelines.coordination.server import Coordinator
from pipelines.fetch import CrawlOptions

HOST = "http://shop.test"
SECONDS = 30


def receive(connection: Connection) -> DriverMessage:
    while not (messages := connection.receive(SECONDS)):
        pass
    return messages[0]


def test_robots_txt_that_cannot_be_fetched_forbids_everything_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The fetcher itself fails, because of an invalid network."""
    with Coordinator(CrawlOptions(allow_networks=("nowhere",))) as coordinator:
        tasks = [Connection(coordinator.endpoint, name) for name in ("a/0", "b/0")]
        for task in tasks:
            task.send(Acquire(HOST, 4))
        for task in tasks:
            rules = receive(task)
            assert isinstance(rules, SiteRules)
            assert (rules.origin, rules.robots.unreached) == (HOST, True)
            assert "ValueError: 'nowhere'" in (rules.robots.refusal or "")
            task.finish()
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (line.getMessage(), line.exc_info is not None) == (f"{HOST}/robots.txt could not be read", True)


def test_a_connection_without_the_token_is_closed() -> None:
    with Coordinator(CrawlOptions(robots=False)) as coordinator:
        stranger = Connection(msgspec.structs.replace(coordinator.endpoint, token="guessed"), "a/0")
        stranger.send(Report({"step": Counts(rows=5)}))
        with pytest.raises(DriverGone):
            receive(stranger)
        stranger.close()
        assert coordinator.get_counts() == {}


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\4oops", encode_frame(Acquire(HOST, 1)), b""])
def test_a_connection_that_speaks_another_protocol_is_closed(data: bytes) -> None:
    with Coordinator() as coordinator:
        address = (coordinator.endpoint.host, coordinator.endpoint.port)
        with socket.create_connection(address, timeout=SECONDS) as stranger:
            stranger.sendall(data)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""


def test_counts_of_a_second_attempt_replace_those_of_the_first() -> None:
    with Coordinator() as coordinator:
        for rows in (5, 7):
            task = Connection(coordinator.endpoint, "pass/0")
            task.send(Report({"step": Counts(rows, 1, 0, 100)}, fetched=[2**64 - 1], failed=[3]))
            task.finish()
        counts, totals = coordinator.get_counts()["step"], coordinator.get_fetch_totals()
    assert counts == Counts(7, 1, 0, 100)
    assert (totals.urls, totals.failed) == (2, 1)


@pytest.mark.long
def test_many_tasks_are_served_without_threads() -> None:
    with Coordinator(CrawlOptions(robots=False)) as coordinator, ExitStack() as stack:
        before = threading.active_count()
        tasks = [Connection(coordinator.endpoint, f"pass/{number}") for number in range(400)]
        for task in tasks:
            stack.callback(task.close)
            task.send(Acquire(HOST, 1))
            task.send(Report({"step": Counts(rows=1)}))
        for task in tasks:
            assert isinstance(receive(task), SiteRules)
            task.finish()
        assert threading.active_count() < before + 20  # other tests' servers may start and end threads of their own
        assert coordinator.get_counts()["step"].rows == 400


def test_it_listens_on_the_given_address() -> None:
    with Coordinator(bind="0.0.0.0") as coordinator:
        assert coordinator.endpoint.host == "0.0.0.0"
        Connection(msgspec.structs.replace(coordinator.endpoint, host="127.0.0.1"), "a/0").finish()
