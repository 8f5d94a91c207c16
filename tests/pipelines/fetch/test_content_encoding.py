"""Bodies as servers compress them: undone when they are whole, refused when they are broken or made to keep us busy."""

from __future__ import annotations

import gzip
import random
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import brotli
import pytest
from backports import zstd

from pipelines.fetch import HttpFetcher, Page, http, transfer
from pipelines.fetch.content_encoding import UndecodableContent, decode_content
from tests.support.bad_server import BadServer
from tests.support.clock import Clock
from tests.support.fetching import fetch, options
from tests.support.service import PATIENCE_SECONDS, wait_until

BROKEN = "the page cannot be decompressed"
LARGE = "the page is larger than 1,048,576 bytes"
MOST = 16 * 2**20
PAGE = b"<p>" + random.Random(1).randbytes(3000) + b"<p>again" * 5000  # longer than what is undone at a time


def raw(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def br(data: bytes) -> bytes:
    return brotli.compress(data, quality=3)


def streamed(data: bytes) -> bytes:
    """Of a length that is not said at the beginning, as servers send it."""
    stream = zstd.ZstdCompressor()
    return stream.compress(data, stream.FLUSH_BLOCK) + stream.flush()


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "zlib as gzip": ("gzip", zlib.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without zlib": ("deflate", raw),
    "br": ("br", br),
    "zstd": ("zstd", zstd.compress),
    "zstd of unsaid length": ("zstd", streamed),
}
each_coding = pytest.mark.parametrize(("coding", "pack"), PACKED.values(), ids=PACKED)


def answered(server: BadServer, coding: str, body: bytes, status: str = "200 OK", **changes: object) -> Page:
    """The page that comes when `server` sends `body` and says that it is compressed by `coding`."""
    server.coded = coding, body
    return fetch(server.url(f"/coded?status={status.replace(' ', '+')}"), **changes)


@each_coding
class TestEachCoding:
    def test_is_decompressed_with_one_request(
        self, coding: str, pack: Callable[[bytes], bytes], bad_server: BadServer
    ) -> None:
        for requests, status in enumerate(("200 OK", "404 Not Found"), 1):
            page = answered(bad_server, coding, pack(PAGE), status)
            assert (page.status, page.error, page.body, page.received) == (int(status[:3]), None, PAGE, len(pack(PAGE)))
            assert bad_server.requests["/coded"] == requests
        assert coding.lower().removeprefix("x-") in bad_server.headers["/coded"]["accept-encoding"].split(", ")

    @pytest.mark.parametrize("status", ["200 OK", "500 Broken"])
    def test_of_nothing_is_nothing(
        self, coding: str, pack: Callable[[bytes], bytes], status: str, bad_server: BadServer
    ) -> None:
        page = answered(bad_server, coding, b"", status)
        assert (page.error, page.body) == (None, b"")
        assert answered(bad_server, coding, pack(b""), status).body == b""

    @pytest.mark.parametrize("left", [0.01, 0.5, 0.999])
    def test_that_is_cut_is_an_error(
        self, coding: str, pack: Callable[[bytes], bytes], left: float, bad_server: BadServer
    ) -> None:
        packed = pack(PAGE)
        cut = packed[: int(len(packed) * left)]
        page = answered(bad_server, coding, cut, retries=3)
        assert (page.status, page.error, page.body, page.received) == (200, BROKEN, b"", len(cut))
        assert bad_server.requests["/coded"] == 1

    def test_of_other_bytes_is_an_error(
        self, coding: str, pack: Callable[[bytes], bytes], bad_server: BadServer
    ) -> None:
        page = answered(bad_server, coding, b"<p>this is no such stream</p>" * 1000)
        assert (page.error, page.body) == (BROKEN, b"")

    def test_is_stopped_where_the_page_gets_too_large(
        self, coding: str, pack: Callable[[bytes], bytes], bad_server: BadServer
    ) -> None:
        page = answered(bad_server, coding, pack(bytes(2**20 + 1)), max_body=2**20)
        assert (page.error, page.body) == (LARGE, bytes(2**20))
        assert answered(bad_server, coding, pack(bytes(2**20)), max_body=2**20).body == bytes(2**20)

    def test_that_is_itself_too_large_gives_the_beginning(
        self, coding: str, pack: Callable[[bytes], bytes], bad_server: BadServer
    ) -> None:
        body = random.Random(2).randbytes(2**21)
        page = answered(bad_server, coding, pack(body), max_body=2**20)
        assert page.error == LARGE
        assert body.startswith(page.body)
        assert len(page.body) > 2**20 - 2**18
        assert 2**20 < page.received <= 2**20 + 2**17


class TestWhatFollows:
    @pytest.mark.parametrize("rest", [bytes(1), bytes(100_000), b"\x1f", b"garbage" * 10_000])
    @pytest.mark.parametrize("name", ["gzip", "deflate", "deflate without zlib"])
    def test_is_dropped_as_browsers_do(self, name: str, rest: bytes, bad_server: BadServer) -> None:
        coding, pack = PACKED[name]
        page = answered(bad_server, coding, pack(PAGE) + rest)
        assert (page.error, page.body) == (None, PAGE)

    @pytest.mark.parametrize("name", ["gzip", "x-gzip", "zstd", "zstd of unsaid length"])
    def test_may_be_more_of_the_page(self, name: str, bad_server: BadServer) -> None:
        coding, pack = PACKED[name]
        parts = [PAGE, b"", b"<p>", PAGE, b"</p>"]
        page = answered(bad_server, coding, b"".join(pack(each) for each in parts))
        assert (page.error, page.body) == (None, b"".join(parts))

    @pytest.mark.parametrize("name", ["gzip", "zstd"])
    def test_may_be_cut_or_broken(self, name: str, bad_server: BadServer) -> None:
        coding, pack = PACKED[name]
        assert answered(bad_server, coding, pack(PAGE) + pack(PAGE)[:-9]).error == BROKEN
        assert answered(bad_server, coding, pack(PAGE) + pack(PAGE)[:20] + bytes(1000)).error == BROKEN

    @pytest.mark.parametrize("at", range(16 * 1024 - 3, 16 * 1024 + 4))
    def test_is_found_wherever_it_begins(self, at: int) -> None:
        first = gzip.compress(random.Random(3).randbytes(20_000), compresslevel=0)
        while len(first) != at:  # stored, so that each byte more or less is one of the stream
            first = gzip.compress(bytes(len(gzip.decompress(first)) + at - len(first)), compresslevel=0)
        assert decode_content(first + gzip.compress(b"end"), b"Content-Encoding: gzip\r\n", MOST).endswith(b"\0end")


AGAIN = "\r\nContent-Encoding: "
REPEATED = ("gzip, gzip", "gzip,gzip", f"gzip{AGAIN}gzip", f"identity{AGAIN}gzip, gzip", f"gzip{AGAIN}GZIP")


class TestNames:
    @pytest.mark.parametrize(
        "coding", ["utf-8", "aws-chunked", "text/html", "none", "identity, UTF-8", f"identity{AGAIN}identity"]
    )
    def test_that_are_no_codings_leave_the_body_as_it_came(self, coding: str, bad_server: BadServer) -> None:
        page = answered(bad_server, coding, PAGE)
        assert (page.status, page.error, page.body, page.received) == (200, None, PAGE, len(PAGE))
        for with_gzip in (f"{coding}, gzip", f"{coding}{AGAIN}gzip", "gzip,"):
            assert answered(bad_server, with_gzip, gzip.compress(PAGE)).body == PAGE

    @pytest.mark.parametrize("coding", ["compress", "exi", "gzip;q=1", "gzip br", '"gzip"', "gzip2", *REPEATED])
    def test_that_cannot_be_decoded_are_refused(self, coding: str, bad_server: BadServer) -> None:
        page = answered(bad_server, coding, gzip.compress(PAGE), retries=3)
        assert (page.status, page.error, page.body) == (200, BROKEN, b"")
        assert bad_server.requests["/coded"] == 1

    def test_of_an_answer_without_a_body_do_no_harm(self, bad_server: BadServer) -> None:
        for coding in ("gzip", "unknown", "gzip, gzip"):
            page = answered(bad_server, coding, b"", "204 No Content")
            assert (page.status, page.error, page.body) == (204, None, b"")

    def test_are_read_of_a_redirect_by_nobody(self, bad_server: BadServer) -> None:
        bad_server.coded = f"unknown\r\nLocation: {bad_server.url('/good')}", b"<a href=/good>"
        page = fetch(bad_server.url("/coded?status=302+Found"))
        assert (page.ok, page.url) == (True, bad_server.url("/good"))

    @pytest.mark.parametrize("head", [b"X-Content-Encoding: gzip\r\n", b"Vary: content-encoding: gzip\r\n", b""])
    def test_elsewhere_mean_nothing(self, head: bytes) -> None:
        assert decode_content(PAGE, head, MOST) == PAGE


def test_headers_of_interim_answers_are_ignored() -> None:
    head = b"HTTP/1.1 103 Early Hints\r\nContent-Encoding: gzip\r\n\r\nHTTP/1.1 200 OK\r\n%s\r\n"
    assert decode_content(b"as it is", head % b"", 100) == b"as it is"
    assert decode_content(gzip.compress(b"as it was"), head % b"Content-Encoding: gzip\r\n", 100) == b"as it was"


def repeated(unit: bytes) -> bytes:
    return (unit * (MOST // len(unit) + 1))[:MOST]


GZIP = bytes.fromhex("1f8b0800000000000003")
ZSTD = bytes.fromhex("28b52ffd0068")  # a window of 8 MiB
BOMBS = {
    "a hundred thousand members": ("gzip", gzip.compress(b"x") * 100_000),
    "members of nothing": ("gzip", repeated(gzip.compress(b""))),
    "stored blocks of nothing": ("gzip", GZIP + repeated(b"\0\0\0\xff\xff")),
    "blocks of nothing": ("gzip", GZIP + repeated(b"\x02\x08\x20\x80\x00")),
    "frames of nothing": ("zstd", repeated(ZSTD + b"\1\0\0")),
    "skipped frames": ("zstd", repeated(b"\x50\x2a\x4d\x18\0\0\0\0")),
    "zstd blocks of nothing": ("zstd", ZSTD + repeated(b"\0\0\0")),
    "zstd blocks of one byte": ("zstd", ZSTD + repeated(b"\x0a\0\0x")),
    "zstd blocks of many bytes": ("zstd", ZSTD + repeated(b"\x02\0\x10x")),
    "zeros by gzip": ("gzip", gzip.compress(bytes(2 * MOST))),
    "zeros by br": ("br", br(bytes(2 * MOST))),
    "zeros by zstd": ("zstd", zstd.compress(bytes(2 * MOST))),
}


@pytest.mark.parametrize(("coding", "body"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_costs_a_fraction_of_a_second(coding: str, body: bytes) -> None:
    began = time.thread_time()
    with suppress(UndecodableContent):
        assert len(decode_content(body, f"Content-Encoding: {coding}\r\n".encode(), MOST)) <= MOST + 1
    assert time.thread_time() - began < 1


def test_after_a_slow_decompression_requests_in_flight_go_on(
    bad_server: BadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, steps = Clock(), list[str]()
    perform = HttpFetcher._perform

    def perform_late(fetcher: HttpFetcher) -> None:
        steps.append("perform")
        if bad_server.requests["/coded"] == 3:  # all answers come at once
            wait_until(lambda: not bad_server.running["/coded"], PATIENCE_SECONDS)
        perform(fetcher)

    def decode_slowly(*given: Any) -> bytes:
        steps.append("decode")
        clock.sleep(1)
        return decode_content(*given)

    monkeypatch.setattr(http, "time", clock)
    monkeypatch.setattr(HttpFetcher, "_perform", perform_late)
    monkeypatch.setattr(transfer, "decode_content", decode_slowly)
    bad_server.coded = "gzip", gzip.compress(b"x")
    with HttpFetcher(options()) as fetcher:
        assert len([*fetcher.fetch((bad_server.url(f"/coded?{each}"), None) for each in range(3))]) == 3
    assert steps.count("decode") == 3
    assert ("decode", "decode") not in pairwise(steps)


def test_a_window_larger_than_servers_may_ask_for_is_refused() -> None:
    body = bytes.fromhex("28b52ffd0070") + b"\x03\0\x10x"  # 16 MiB
    with pytest.raises(UndecodableContent):
        decode_content(body, b"Content-Encoding: zstd\r\n", MOST)
    assert decode_content(ZSTD + b"\x03\0\x10x", b"Content-Encoding: zstd\r\n", MOST) == b"x" * 2**17
