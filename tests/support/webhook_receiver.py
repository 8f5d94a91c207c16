"""A stand-in for the service's side of the webhook: takes reports, in order, and answers what a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Message:
    headers: dict[str, str]
    body: str

    @property
    def payload(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass
class Receiver:
    """`answers` are the statuses of the next requests; after them all are taken with 200."""

    url: str
    answers: list[int] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def take(self) -> list[Message]:
        """The messages so far, which are forgotten."""
        taken, self.messages = self.messages, []
        return taken


@contextmanager
def receiving() -> Generator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.messages.append(Message(headers, body))
            self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/completion")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
