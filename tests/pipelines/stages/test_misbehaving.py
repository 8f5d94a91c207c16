"""One pipeline over all that a server can do wrong: it ends, tells of each row what happened, and leaks nothing."""

from __future__ import annotations

import json
import logging
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest

from pipelines.extract import Document
from pipelines.extract.rows import Fetched
from pipelines.fetch import Page
from tests.support.bad_server import BadServer, bad_server
from tests.support.pipelines import Run
from tests.support.service import PATIENCE_SECONDS, wait_until

__all__ = ["bad_server"]

PIPELINE = """
pipeline:
  - {stage: load_csv, args: ["${FILE}"]}
  - {stage: wget, args: [$address]}
  - {stage: extract, args: [{selector: h1, as: heading}]}
spindle: {robots: ignore, cache: 0, timeout: 6, maxFailureRatio: 1, keepColumns: [_error]}
"""
HEADING = b"<h1>It works</h1>"


def typed(body: bytes, kind: str = "text/html") -> str:
    return f"/typed?{urlencode({'hex': body.hex(), 'type': kind})}"


UNENDING = "timed out after 6 s"
LARGE = "the page is larger than 16,777,216 bytes"
CUT = "closed the connection before the end of the page"
# What is wrong with the answer of each path, in words of the row's error; None where the page can be had all the same.
PATHS = {
    "/chain?left=3": None,
    "/reset-once": None,
    "/too-long": None,
    typed(HEADING, "text/html; charset=undefined"): None,
    typed(HEADING + rb"\ud800", "text/html; charset=unicode_escape"): None,
    typed(b'<meta charset="a\0b">' + HEADING): None,
    typed(b"\xed\xa0\x80&#xD800;" + HEADING): None,
    "/loop": "redirects more than 20 times",
    "/slow-redirects": "redirects more than 20 times",
    "/reset": "broke",
    "/reset-midway": "broke",
    "/empty": "closed the connection without an answer",
    "/too-short": CUT,
    "/bad-length": "does not speak HTTP",
    "/not-http": "does not speak HTTP",
    "/silent?seconds=9": UNENDING,
    "/stall?seconds=9": UNENDING,
    "/drip": UNENDING,
    "/large?size=100000000": LARGE,
    "/bomb?size=100000000": LARGE,
    "/bad-gzip": "cannot be decompressed",
    "/headers?count=10000": "",
}


@pytest.mark.long
def test_a_crawl_of_a_misbehaving_site_ends_with_a_status_per_row(
    run: Run, bad_server: BadServer, tmp_path: Path
) -> None:
    file = tmp_path / "addresses.csv"
    for paths in ([path for path, error in PATHS.items() if error is None], PATHS):
        before = settled(bad_server)  # the second time, what Spark and the engine start once is there
        file.write_text("address\n" + "".join(f"{bad_server.url(path)}\n" for path in paths))
        rows = run(PIPELINE, FILE=str(file))
    wait_until(lambda: settled(bad_server) <= before, PATIENCE_SECONDS)
    assert len(rows) == len(PATHS)
    for row, (path, error) in zip(rows, PATHS.items(), strict=True):
        assert row["address"] == bad_server.url(path)
        assert row["heading"] == ("It works" if error is None else None), path
        assert (error or "") in (row["_error"] or ""), path
        assert (row["_error"] is None) is (error is None), path


HALVES = """
pipeline:
  - {stage: load_csv, args: ["${FILE}"]}
  - {stage: wget, args: [$address]}
  - stage: extract
    args:
      - {selector: THING, as: text}
      - {selector: THING, method: attrs, as: attrs}
      - {selector: THING, method: code, as: code}
      - {selector: THING, method: "attr:title", as: title}
      - {selector: LINK, method: href, as: url}
      - {method: code, as: page}
  - {stage: wgetJoin, args: [LINK]}
spindle: {robots: ignore, cache: 0, maxFailureRatio: 1, keepColumns: [_url, _error, _linkText]}
"""


HALF_PAIRS = (rb"\ud800", b"\xed\xa0\x80", b"&#xD800;", b"&#55296;")


@pytest.mark.parametrize(
    ("body", "kind", "thing", "link"),
    [
        (b'{"a": {"title": "X", "Xb": ["X"]}, "next": "/X"}', "application/json", "$.a", "$.next"),
        (b'{"a": {"title": "X", "Xb": ["X"]}, "next": "/X"}', "text/plain; charset=gbk", "$.a", "$.next"),
        (b"<h1 title=X data-X>X</h1><a href=/X>X</a>", "text/html; charset=utf-8", "h1", "a"),
        (b"<h1 title=X data-X>X</h1><a href=/X>X</a>", "text/html; charset=gbk", "h1", "a"),
    ],
)
def test_half_a_surrogate_pair_comes_into_no_row(
    run: Run, bad_server: BadServer, tmp_path: Path, body: bytes, kind: str, thing: str, link: str
) -> None:
    file = tmp_path / "addresses.csv"
    paths = [typed(body.replace(b"X", half), kind) for half in HALF_PAIRS]
    file.write_text("address\n" + "".join(f"{bad_server.url(path)}\n" for path in paths))
    rows = run(HALVES.replace("THING", thing).replace("LINK", link), FILE=str(file))
    assert len(rows) == len(paths)
    assert all(row["title"] and row["_linkText"] for row in rows)
    json.dumps(rows, ensure_ascii=False).encode()


def test_an_unreadable_page_fails_only_its_row(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failure: BaseException = ValueError("not so")

    def broken(page: Page, parser: object = None) -> Document:
        raise failure

    monkeypatch.setattr("pipelines.extract.rows.Document", broken)
    page = Page("http://u:secret@h/a", "http://h/b", 200, None, "text/html", None, b"<p>", datetime.now(UTC))
    with caplog.at_level(logging.ERROR):
        fetched = Fetched.from_page(page)
    assert (fetched.status, fetched.error) == (200, "the page could not be read: not so")
    assert (fetched.page, fetched.root) == (None, None)
    assert [record.getMessage() for record in caplog.records] == ["a page of http://h could not be read"]
    for failure in (MemoryError(), KeyboardInterrupt()):
        with pytest.raises(type(failure)):
            Fetched.from_page(page)


def settled(server: BadServer) -> tuple[int, int]:
    """Open files and threads of this process, once the server that is in it has given up on its last answer."""
    wait_until(lambda: not +server.running, PATIENCE_SECONDS)
    time.sleep(0.5)
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
