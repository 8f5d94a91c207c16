"""A server that receives webhooks and completion reports."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers import Handler, serve


@dataclass(frozen=True)
class Message:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def payload(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass
class Receiver:
    """The messages so far, and the answers to the next ones.

    The path selects the answer: `/<status>/x` is answered with this status, `/hang/x` never, `/reset/x` with a TCP
    reset, `/flood/x` with an endless body. Every other path is answered with the next of `answers`, then with 200.
    """

    url: str
    answers: list[int] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def take(self) -> list[Message]:
        """Return the messages so far and remove them."""
        taken, self.messages = self.messages, []
        return taken

    def of(self, path: str) -> list[Message]:
        return [message for message in self.messages if message.path == path]


@contextmanager
def receive_webhooks() -> Generator[Receiver]:
    stopped = threading.Event()

    class ReceiverHandler(Handler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.messages.append(Message(self.path, headers, self.read_body()))
            match self.path.split("/")[1]:
                case "hang":
                    stopped.wait(600)
                    self.close_connection = True  # or the client waits for its own time limit
                case "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.rfile.close()  # the socket closes with the last of the files made from it
                    self.connection.close()
                case "flood":
                    self._flood()
                case status if status.isdigit():
                    self._answer(int(status))
                case _:
                    self._answer(receiver.answers.pop(0) if receiver.answers else 200)

        def _answer(self, status: int) -> None:
            redirect = {"Location": f"{receiver.url}/200/redirected"} if 300 <= status < 400 else {}
            self.respond(status, "{}", "application/json", **redirect)

        def _flood(self) -> None:
            self.send_response(200)
            self.end_headers()
            while not stopped.is_set():
                self.wfile.write(b"x" * 65536)

    with serve(ReceiverHandler) as url:
        receiver = Receiver(url)
        try:
            yield receiver
        finally:
            stopped.set()
