"""The fetch guard for a local browser: a SOCKS5 proxy (RFC 1928) on loopback for all of its connections.

The browser sends host names and resolves none. The proxy resolves each name, checks the address and connects to that
address, so redirects, sub-requests and WebSockets are guarded as well.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from pipelines.http_client.guard import Guard, GuardRefused

_CHUNK = 64 * 1024
_HELLO = b"\x05\x01\x00"
_CONNECT = b"\x05\x01\x00"
_CONNECTED, _FAILED, _FORBIDDEN, _UNREACHABLE = 0, 1, 2, 4
_IPV4, _NAME, _IPV6 = 1, 3, 4

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Refused(Exception):
    """A refused connection: the code of the reply, and a sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass
class SocksProxy:
    """The proxy of one page at a time, on the event loop that opens it; a page may receive `max_bytes` in all."""

    guard: Guard
    connect_timeout: float
    max_bytes: int
    upstream: str | None = None
    received: int = field(default=0, init=False)
    failures: dict[str, str] = field(default_factory=dict[str, str], init=False)
    _server: asyncio.Server | None = field(default=None, init=False)
    _connections: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"], init=False)

    async def open(self) -> str:
        """Start to listen; return the URL for the browser's proxy setting."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"socks5://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        if self._server:
            self._server.close()
        self._close_connections()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def reset(self) -> None:
        """Reset the byte count and the failures for the next page."""
        self.received = 0
        self.failures.clear()

    @property
    def exceeded(self) -> bool:
        return self.received > self.max_bytes

    def _close_connections(self) -> None:
        for task in self._connections:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # one side has closed the connection, or the page is closed
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(len(_HELLO)) != _HELLO:
            return
        writer.write(b"\x05\x00")
        if await reader.readexactly(len(_CONNECT)) != _CONNECT:
            return
        host, port = await _read_destination(reader)
        try:
            remote, remote_writer = await self._connect(host, port)
        except _Refused as refused:
            self.failures[_format_address(host, port)] = str(refused)
            writer.write(_create_reply(refused.code))
            await writer.drain()
            return
        writer.write(_create_reply(_CONNECTED))
        try:
            await self._relay((reader, writer), (remote, remote_writer))
        finally:
            remote_writer.close()

    async def _connect(self, host: str, port: int) -> Streams:
        """Connect to the first address of `host` that the guard permits and that answers; raise _Refused."""
        refused = _Refused(_FAILED, f"could not connect to {_format_address(host, port)}")
        for address in await self._resolve(host, port):
            try:
                self.guard.check(address, port)
                if self.upstream:
                    connecting = self._connect_upstream(self.upstream, address, port)
                else:
                    connecting = asyncio.open_connection(address, port)
                return await asyncio.wait_for(connecting, self.connect_timeout)
            except GuardRefused as error:
                refused = _Refused(_FORBIDDEN, f"refused: {error.describe_for(host)}")
            except TimeoutError:
                within = f"within {self.connect_timeout:g} s"
                refused = _Refused(_FAILED, f"could not connect to {_format_address(host, port)} {within}")
            except (OSError, EOFError, asyncio.LimitOverrunError):  # try the next address
                continue
        raise refused

    async def _connect_upstream(self, proxy: str, address: str, port: int) -> Streams:
        """Connect to `address`, which the guard has checked, through the tunnel of an HTTP proxy; raise _Refused."""
        parts = urlsplit(proxy)
        proxy_port = parts.port or (443 if parts.scheme == "https" else 80)
        proxy_address = (await self._resolve(parts.hostname or "", proxy_port))[0]
        try:
            self.guard.check(proxy_address, proxy_port)
        except GuardRefused as error:
            raise _Refused(_FORBIDDEN, f"refused: {error.describe_for('the proxy')}") from None
        context = ssl.create_default_context() if parts.scheme == "https" else None
        name = parts.hostname if context else None
        reader, writer = await asyncio.open_connection(proxy_address, proxy_port, ssl=context, server_hostname=name)
        target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}")
        writer.write("\r\n".join((*lines, "", "")).encode("latin-1", "replace"))
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(maxsplit=2)[1:2] != [b"200"]:
            writer.close()
            raise _Refused(_FAILED, f"no proxy could connect to {target}")
        return reader, writer

    async def _resolve(self, host: str, port: int) -> list[str]:
        lookup = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.wait_for(lookup, self.connect_timeout)
        except (OSError, UnicodeError, TimeoutError):
            raise _Refused(_UNREACHABLE, f"could not find the host {host}") from None
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def _relay(self, client: Streams, server: Streams) -> None:
        """Copy data in both directions until one side ends."""
        tasks = [
            asyncio.create_task(self._send(client[0], server[1])),
            asyncio.create_task(self._receive(server[0], client[1])),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            self.received += len(data)
            if self.exceeded:
                self._close_connections()
            writer.write(data)
            await writer.drain()


async def _read_destination(reader: asyncio.StreamReader) -> tuple[str, int]:
    kind = (await reader.readexactly(1))[0]
    if kind == _NAME:
        name = await reader.readexactly((await reader.readexactly(1))[0])
        host = name.decode("ascii", "replace")
    else:
        host = str(ip_address(await reader.readexactly(4 if kind == _IPV4 else 16)))
    return host, int.from_bytes(await reader.readexactly(2))


def _create_reply(code: int) -> bytes:
    return bytes((5, code, 0, _IPV4)) + bytes(6)


def _format_address(host: str, port: int) -> str:
    return f"{host.strip('[]')}:{port}"
