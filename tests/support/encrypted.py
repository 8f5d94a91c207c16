"""A server that encrypts, with a certificate that nobody signed."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for `name` that nobody signed, and its key."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.test"]
    command += ["-addext", f"subjectAltName={name}", "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@contextmanager
def https(certificate: Path, key: Path) -> Iterator[int]:
    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None: ...

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Server(("127.0.0.1", 0), Quiet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
