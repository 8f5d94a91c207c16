"""HTTP proxies on loopback: one that records what it is asked for, and one that loses and delays reports."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.support.servers import Handler, serve


@dataclass
class Proxy:
    """`requests` are the targets of its requests and tunnels, `logins` their Proxy-Authorization."""

    url: str
    requests: list[str] = field(default_factory=list[str])
    logins: list[str | None] = field(default_factory=list[str | None])


@contextmanager
def serve_proxy() -> Generator[Proxy]:
    class ProxyHandler(Handler):
        def do_GET(self) -> None:
            self._record()
            parts = urlsplit(self.path)
            connection = http.client.HTTPConnection(parts.netloc, timeout=10)
            connection.request("GET", parts.path or "/")
            answer = connection.getresponse()
            self.respond(answer.status, answer.read(), answer.headers.get("Content-Type", "text/html"))
            connection.close()

        def do_CONNECT(self) -> None:
            self._record()
            host, _, port = self.path.rpartition(":")
            self.close_connection = True
            with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as target:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_copy, args=(target, self.connection), daemon=True)
                back.start()
                _copy(self.connection, target)
                back.join(5)

        def _record(self) -> None:
            proxy.requests.append(self.path)
            proxy.logins.append(self.headers.get("Proxy-Authorization"))

    with serve(ProxyHandler) as url:
        proxy = Proxy(url)
        yield proxy


Fault = Literal["dropped", "delayed", "doubled", "reordered"]
DELAY_SECONDS = 11  # longer than the driver waits for an answer


@dataclass
class ReportProxy:
    """Stands between drivers and the API, whose URL is `target`.

    `faults` has the fault of each job; heartbeats and the end are counted apart. Every other report of `dropped` jobs
    gets no answer; the first of `delayed` jobs is answered too late; each of `doubled` jobs is forwarded twice, and
    every other heartbeat of `reordered` jobs is forwarded after their end. The ends of jobs in `held` are forwarded
    once `release` is set. `reports` are the forwarded ones, with the status of their answers.
    """

    url: str
    target: str = ""
    faults: dict[str, Fault] = field(default_factory=dict[str, Fault])
    held: set[str] = field(default_factory=set[str])
    holds: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    reports: list[tuple[dict[str, Any], int]] = field(default_factory=list[tuple[dict[str, Any], int]])


@dataclass(frozen=True)
class _Report:
    path: str
    headers: dict[str, str]
    body: bytes


@contextmanager
def serve_report_proxy() -> Generator[ReportProxy]:
    waiting: dict[str, list[_Report]] = {}
    counts = Counter[tuple[str, bool]]()

    class ReportHandler(Handler):
        def do_POST(self) -> None:
            report = _Report(self.path, dict(self.headers.items()), self.read_body())
            payload = json.loads(report.body)
            job, ends = payload["jobId"], payload["status"] != "RUNNING"
            fault = proxy.faults.get(job)
            if ends and job in proxy.held:
                proxy.holds.set()
                proxy.release.wait(600)
            number = counts[job, ends] = counts[job, ends] + 1
            if fault == "reordered" and not ends and number % 2:
                waiting.setdefault(job, []).append(report)
                self.respond(200, "{}", "application/json")
                return
            status, body = _forward(report)
            if fault == "doubled":
                status, body = _forward(report)
            for late in waiting.pop(job, ()) if ends else ():
                _forward(late)
            if fault == "dropped" and number % 2:
                self.close_connection = True
                return
            if fault == "delayed" and number == 1:
                time.sleep(DELAY_SECONDS)
            self.respond(status, body, "application/json")

    def _forward(report: _Report) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(urlsplit(proxy.target).netloc, timeout=60)
        connection.request("POST", report.path, report.body, report.headers)
        answer = connection.getresponse()
        body = answer.read()
        proxy.reports.append((json.loads(report.body), answer.status))
        connection.close()
        return answer.status, body

    with serve(ReportHandler) as url:
        proxy = ReportProxy(url)
        try:
            yield proxy
        finally:
            proxy.release.set()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
