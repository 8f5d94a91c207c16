"""Pages as WARC archives: without secrets, readable by others, and as far as they go when they were cut."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from io import BytesIO

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from pipelines.fetch.page import Page
from pipelines.page_cache.warc import ArchiveReading, PageArchive, read_archive

SECRET = "s3cr3t-value"
HEAD = b'Content-Type: text/html\r\nSet-Cookie: id=1\r\nX-Auth: a\r\nContent-Encoding: gzip\r\nETag: "1"\r\n'
MANY = 8


def make_page(number: int) -> Page:
    body, at = f"<h1>{number}</h1> {SECRET}".encode() * 500, datetime(2026, 5, 1, 12, 30, 15, 123456, UTC)
    asked, url, redirect = (f"https://shop.test/{path}{number}" for path in ("", "item/", "old/"))
    return Page(f"{asked}?api_key=abc&page=1", url, 200, None, "text/html", "utf-8", body, at, (redirect,), HEAD)


@pytest.fixture(scope="module")
def archive() -> bytes:
    stream = BytesIO()
    written = PageArchive(stream, {"pages": "30"}, (SECRET,))
    for number in range(MANY):
        written.add(make_page(number), "v")
    return stream.getvalue()


def read(content: bytes, max_body: int = 1_000_000) -> tuple[list[Page], ArchiveReading]:
    reading = ArchiveReading()
    return [page for _, page in read_archive(BytesIO(content), reading, max_body)], reading


def test_other_readers_find_the_redirects_and_no_secret(archive: bytes) -> None:
    text = gzip.decompress(archive).decode()
    assert SECRET not in text
    assert not any(each in text for each in ("Set-Cookie", "X-Auth", "api_key=abc"))
    records = [
        (each.rec_headers.get_header("WARC-Target-URI"), each.http_headers.get_statuscode())
        for each in ArchiveIterator(BytesIO(archive))
        if each.rec_type == "response"
    ]
    assert records[:3] == [
        ("https://shop.test/0?api_key=********&page=1", "302"),
        ("https://shop.test/old/0", "302"),
        ("https://shop.test/item/0", "200"),
    ]


def test_a_secret_is_masked_as_values_and_attributes_write_it() -> None:
    secret, stream = 'pass"word\\<&é', BytesIO()
    texts = (secret, escape(secret), json.dumps({"value": secret}, ensure_ascii=False))
    body = "\n".join(texts).encode()
    PageArchive(stream, secrets=(secret,)).add(replace(make_page(1), body=body))
    *_, page = read(stream.getvalue())[0]
    assert page.body.decode().split("\n") == ["********", "********", '{"value": "********"}']


def test_a_page_comes_back_as_it_was(archive: bytes) -> None:
    pages, reading = read(archive)
    page, written = pages[2], make_page(0)
    assert reading == ArchiveReading({**reading.about, "pages": "30"})
    assert (page.url, page.status, page.content_type, page.charset) == (written.url, 200, "text/html", None)
    assert (page.fetched_at, page.header("etag")) == (written.fetched_at, '"1"')
    assert page.body.decode() == written.body.decode().replace(SECRET, "********")


@pytest.mark.parametrize("is_packed", [True, False])
def test_an_archive_cut_anywhere_gives_its_whole_records_and_says_so(archive: bytes, is_packed: bool) -> None:
    content = archive if is_packed else gzip.decompress(archive)
    whole = [page.url for page in read(content)[0]]
    for size in range(1, len(content) - 4, len(content) // 60):
        pages, reading = read(content[:size])
        assert [page.url for page in pages] == whole[: len(pages)]
        if not (is_packed and content[size:].startswith(b"\x1f\x8b\x08")):  # between two records
            assert reading.problem
        assert len(pages) < len(whole)
    assert len(pages) >= len(whole) - 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "it is empty"), (b"%PDF-1.7 no archive\n" * 40, "it is no WARC archive"), (b"\x1f\x8b\x08", "it was cut")],
)
def test_another_file_is_no_archive(content: bytes, problem: str) -> None:
    pages, reading = read(content)
    assert not pages
    assert reading.problem
    assert reading.problem.startswith(problem)


def test_foreign_records_are_read_within_the_limit() -> None:
    stream = BytesIO()
    writer = WARCWriter(stream, gzip=False)
    packed = gzip.compress(b"<h1>x</h1>" + b"0" * 5_000_000)
    headers = [("Content-Type", "text/html"), ("Content-Encoding", "gzip")]
    for url, body in (("https://a.test/", gzip.compress(b"<h1>a</h1>")), ("https://a.test/bomb", packed)):
        answer = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
        writer.write_record(writer.create_warc_record(url, "response", BytesIO(body), len(body), http_headers=answer))
    for url, kind in (("dns:a.test", "resource"), ("https://a.test/", "metadata")):
        writer.write_record(writer.create_warc_record(url, kind, BytesIO(b"1.2.3.4"), 7))
    whole = gzip.compress(stream.getvalue())  # as some tools do, in place of a member for each record
    pages, reading = read(whole, 100_000)
    assert [(page.body[:10], page.error) for page in pages] == [
        (b"<h1>a</h1>", None),
        (b"<h1>x</h1>", "the page is larger than 100,000 bytes"),
    ]
    assert (len(pages[1].body), reading.left_out, reading.problem) == (100_000, {"metadata": 1}, None)
