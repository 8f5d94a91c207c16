"""The browser's only way out: a SOCKS5 server (RFC 1928) on loopback that connects where the guard lets it.

The browser hands over names, never addresses that it looked up itself; each connection is resolved here, checked, and
made to the address that was checked. Every redirect, sub-request and WebSocket passes, encrypted or not.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from dataclasses import dataclass, field
from ipaddress import ip_address

from pipelines.fetch import Guard, GuardRefused

_CHUNK = 64 * 1024
_HELLO = b"\x05\x01\x00"
_CONNECT = b"\x05\x01\x00"
_CONNECTED, _FAILED, _FORBIDDEN, _UNREACHABLE = 0, 1, 2, 4
_IPV4, _NAME, _IPV6 = 1, 3, 4

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Refused(Exception):
    """No connection: the reply's code, and a sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass
class Gate:
    """For one page at a time, on the event loop that opens it; `most_bytes` is what one page may bring in all."""

    guard: Guard
    connect_timeout: float
    most_bytes: int
    received: int = field(default=0, init=False)
    failures: dict[str, str] = field(default_factory=dict[str, str], init=False)
    _server: asyncio.Server | None = field(default=None, init=False)
    _open: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"], init=False)

    async def open(self) -> str:
        """Begins to listen, and returns the address as a browser's proxy setting."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"socks5://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        if self._server:
            self._server.close()
        self._cut()
        await asyncio.gather(*self._open, return_exceptions=True)

    def next_page(self) -> None:
        """Counts from zero, and forgets what failed."""
        self.received = 0
        self.failures.clear()

    @property
    def exceeded(self) -> bool:
        return self.received > self.most_bytes

    def _cut(self) -> None:
        for task in self._open:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._open.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # one of the two sides is gone, or the page is over
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(len(_HELLO)) != _HELLO:
            return
        writer.write(b"\x05\x00")
        if await reader.readexactly(len(_CONNECT)) != _CONNECT:
            return
        host, port = await _destination(reader)
        try:
            remote, remote_writer = await self._connect(host, port)
        except _Refused as refused:
            self.failures[_place(host, port)] = str(refused)
            writer.write(_reply(refused.code))
            await writer.drain()
            return
        writer.write(_reply(_CONNECTED))
        try:
            await self._relay((reader, writer), (remote, remote_writer))
        finally:
            remote_writer.close()

    async def _connect(self, host: str, port: int) -> Streams:
        """A connection to the first address of `host` that may be connected to and answers; raises _Refused."""
        refused = _Refused(_FAILED, f"could not connect to {_place(host, port)}")
        for address in await self._addresses(host, port):
            try:
                self.guard.check(address)
                return await asyncio.wait_for(asyncio.open_connection(address, port), self.connect_timeout)
            except GuardRefused as error:
                refused = _Refused(_FORBIDDEN, f"refused: {error.of(host)}")
            except TimeoutError:
                within = f"within {self.connect_timeout:g} s"
                refused = _Refused(_FAILED, f"could not connect to {_place(host, port)} {within}")
            except OSError:  # the next address may take it; of the last one `refused` tells
                continue
        raise refused

    async def _addresses(self, host: str, port: int) -> list[str]:
        looking = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.wait_for(looking, self.connect_timeout)
        except (OSError, UnicodeError, TimeoutError):
            raise _Refused(_UNREACHABLE, f"could not find the host {host}") from None
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def _relay(self, near: Streams, far: Streams) -> None:
        """Passes on what either side sends, until one has nothing more to say."""
        directions: tuple[Awaitable[None], ...] = (self._pass(near[0], far[1]), self._receive(far[0], near[1]))
        tasks = [asyncio.ensure_future(direction) for direction in directions]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            self.received += len(data)
            if self.exceeded:
                self._cut()
            writer.write(data)
            await writer.drain()


async def _destination(reader: asyncio.StreamReader) -> tuple[str, int]:
    kind = (await reader.readexactly(1))[0]
    if kind == _NAME:
        name = await reader.readexactly((await reader.readexactly(1))[0])
        host = name.decode("ascii", "replace")
    else:
        host = str(ip_address(await reader.readexactly(4 if kind == _IPV4 else 16)))
    return host, int.from_bytes(await reader.readexactly(2))


def _reply(code: int) -> bytes:
    return bytes((5, code, 0, _IPV4)) + bytes(6)


def _place(host: str, port: int) -> str:
    return f"{host.strip('[]')}:{port}"
