"""The line between a task and the driver's coordinator: JSON messages, one a line, both ways."""

from __future__ import annotations

import json
import select
import socket
from dataclasses import dataclass
from typing import Any

from pipelines.errors import RunError

_TIMEOUT = 30.0  # seconds that the driver may take to answer


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the driver's coordinator listens, the secret that lets a worker speak to it, the folder of the pages that
    belong to this run alone, and how many rows of each step the driver shows.
    """

    host: str
    port: int
    token: str
    pages: str
    shown_rows: int = 0


class DriverGone(RunError):
    """The driver does not listen any more: its run is over, and so is the task."""

    def __init__(self) -> None:
        super().__init__("the run that this task belongs to is over")


class Channel:
    """One task's connection. Messages that come in wait until somebody asks for them. For one thread."""

    def __init__(self, endpoint: Endpoint, task: str) -> None:
        self._rest = b""
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout=_TIMEOUT)
        except OSError:
            raise DriverGone from None
        self.send({"token": endpoint.token, "task": task})

    def send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise DriverGone from None

    def received(self, seconds: float = 0) -> list[dict[str, Any]]:
        """What has come, waiting so long for something to come."""
        try:
            if not select.select([self._socket], [], [], seconds)[0]:
                return []
            data = self._socket.recv(1 << 20)
        except OSError:
            raise DriverGone from None
        if not data:
            raise DriverGone
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def finish(self) -> None:
        """Waits until the driver has all that was sent, and hangs up."""
        self.send({"end": True})
        while not any(message.get("end") for message in self.received(_TIMEOUT)):
            pass
        self._socket.close()

    def close(self) -> None:
        self._socket.close()


def connected(endpoint: Endpoint | None, task: str) -> Channel | None:
    """The way to the driver; None where there is none, or none any more: rows may be read after their run."""
    try:
        return Channel(endpoint, task) if endpoint else None
    except DriverGone:
        return None
