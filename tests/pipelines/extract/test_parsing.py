"""Parsing of ordinary, large and hostile pages."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from resource import RLIMIT_CPU, setrlimit
from signal import SIGKILL

import psutil
import pytest

from pipelines.extract import parsing
from pipelines.extract.parsing import PageTooComplex, parse_html
from pipelines.extract.rows import Fetched
from pipelines.fetch import Page
from tests.support.pages import document

PAGES = sorted((Path(__file__).parent / "jsoup" / "pages").glob("*.html"))
ROW = b'<tr class="row"><td class="c">abc</td><td class=d>def</td><td><a href="/item/1">text</a></td></tr>'
NESTED = b"<div>" * 60_000
SLOW = {
    "nested blocks": NESTED,
    "nested tables": (b"<table><table></table>" + b"<div>" * 400 + b"</table>") * 1000,
    "end tags of nothing": b"<div>" * 60_000 + b"</p>" * 60_000,
    "attributes": b"<a " + b" ".join(b"a%d" % i for i in range(80_000)) + b">",
    "attributes with tag ends in quotes": b"<p " + b" ".join(b'a%d=">"' % i for i in range(80_000)) + b">",
}
LARGE = {
    "formatting elements": b"<p>" + b"".join(b"<b a%d>" % i for i in range(20_000)) + b"<p>x" * 20_000,
    "few attributes in many copies": b"<p><a " + b" ".join(b"a%d" % i for i in range(2000)) + b">" + b"<p>x" * 8000,
}
UNUSUAL = {
    "list without end tags": b"<ul>" + b"<li><b>x</b> y" * 100_000,
    "long attribute": b'<img src="data:' + b"x" * 1_000_000 + b'">',
    "tag end in quotes": b"<p title='>'>" + b"x" * 100_000,
    "many links": b"".join(b'<a href="/%d">x</a> ' % i for i in range(100_000)),
}


def list_bodies(bodies: dict[str, bytes]) -> list[object]:
    """Return the bodies as parameters of a test; all but the first are left to the long tests."""
    return [
        pytest.param(html, id=name, marks=[pytest.mark.long] if at else [])
        for at, (name, html) in enumerate(bodies.items())
    ]


def fetched(html: bytes) -> Fetched:
    url = "http://shop.test/"
    return Fetched.from_page(Page(url, url, 200, None, "text/html", "utf-8", html, datetime.now(UTC)))


def record_forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the pid of each process that this one forks."""
    forks: list[int] = []
    fork = os.fork

    def fork_recorded() -> int:
        pid = fork()
        if pid:
            forks.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", fork_recorded)
    return forks


def record_seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list that gets the CPU seconds of each process that this one waits for by its pid."""
    seconds: list[float] = []

    def wait_recorded(pid: int, options: int) -> tuple[int, int]:
        ended, status, usage = os.wait4(pid, options)
        seconds.append(usage.ru_utime)
        return ended, status

    monkeypatch.setattr(os, "waitpid", wait_recorded)
    return seconds


@pytest.mark.long
@pytest.mark.parametrize("html", list_bodies(SLOW))
def test_slow_html_is_an_error_of_its_row(html: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_CPU_SECONDS", 1)
    forks, seconds = record_forks(monkeypatch), record_seconds(monkeypatch)
    page = fetched(html)
    assert (page.error, page.root) == ("the page could not be read: its HTML takes more than 1 s to parse", None)
    assert len(seconds) == len(forks) > 0
    assert max(seconds) < 5
    assert not any(map(psutil.pid_exists, forks))


@pytest.mark.long
@pytest.mark.parametrize("html", list_bodies(LARGE))
def test_html_with_a_large_tree_is_an_error_of_its_row(html: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_MEMORY", 100 << 20)
    before = psutil.Process().memory_info().rss
    page = fetched(html)
    assert (page.error, page.root) == ("the page could not be read: its HTML takes more than 100 MiB to parse", None)
    assert psutil.Process().memory_info().rss - before < 100 << 20


def test_other_failures_of_the_trial_are_errors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parent = parsing._parse, os.getpid()

    def crash(html: bytes) -> object:
        if os.getpid() != parent:
            os.kill(os.getpid(), SIGKILL)
        return parse(html)

    monkeypatch.setattr(parsing, "_parse", crash)
    with pytest.raises(PageTooComplex, match="signal 9"):
        parse_html(NESTED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_ordinary_pages_need_no_trial(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_try_parsing", lambda html: pytest.fail("parsed twice"))
    parse_html(page.read_bytes())


@pytest.mark.parametrize("html", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_pages_are_parsed(html: bytes) -> None:
    assert document(html).root.select("li, img, p, a")


@pytest.mark.parametrize("size", [100_000, 15_000_000])
def test_large_tables_are_parsed(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count, forks = size // len(ROW), record_forks(monkeypatch)
    root = document(b"<table>" + ROW * count + b"</table>").root
    assert len(root.select("tr")) == count
    assert not any(map(psutil.pid_exists, forks))


def test_a_process_with_a_low_limit_of_cpu_time_parses_as_well() -> None:
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)  # which may not raise the limit
            setrlimit(RLIMIT_CPU, (4, 4))
            document(b"<p>" * 20_000)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
