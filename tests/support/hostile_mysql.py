"""A server of MySQL's protocol that answers every statement by asking its client for a file."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# long password, database, local files, protocol 4.1, transactions, secure connection; plugins of authentication
CAPABILITIES = 0x1 | 0x8 | 0x80 | 0x200 | 0x2000 | 0x8000 | 0x80000
OK = b"\x00\x00\x00\x02\x00\x00\x00"
QUERY = 3
WANTS_FILE = b"\xfb"


@dataclass
class HostileServer:
    """`asked` counts the requests for the file, `received` has what the client sent after them."""

    port: int
    asked: int = 0
    received: bytearray = field(default_factory=bytearray)


@contextmanager
def serve_hostile_mysql(file: str) -> Generator[HostileServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = HostileServer(listener.getsockname()[1])

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client, suppress(OSError, struct.error):
                        client.settimeout(10)
                        _serve(client, server, file)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _serve(client: socket.socket, server: HostileServer, file: str) -> None:
    low, high = struct.pack("<I", CAPABILITIES)[:2], struct.pack("<I", CAPABILITIES)[2:]
    greeting = b"\x0a8.0.36\x00" + struct.pack("<I", 1) + b"12345678\x00" + low + b"\x2d\x02\x00" + high
    _send(client, 0, greeting + b"\x15" + bytes(10) + b"123456789012\x00mysql_native_password\x00")
    number, _ = _receive(client)
    _send(client, number + 1, OK)
    while True:
        number, command = _receive(client)
        if command[0] == QUERY:
            server.asked += 1
            _send(client, number + 1, WANTS_FILE + file.encode())
            number, content = _receive(client)
            while content:
                server.received += content
                number, content = _receive(client)
        _send(client, number + 1, OK)


def _send(client: socket.socket, number: int, payload: bytes) -> None:
    client.sendall(struct.pack("<I", len(payload))[:3] + bytes([number % 256]) + payload)


def _receive(client: socket.socket) -> tuple[int, bytes]:
    header = _read(client, 4)
    return header[3], _read(client, int.from_bytes(header[:3], "little"))


def _read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise OSError("the client has gone")
        data += part
    return data
