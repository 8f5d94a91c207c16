"""What every page store guarantees, whatever holds its pages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import pytest

from pipelines.fetch import Page
from pipelines.filesystem import is_local, list_data_files
from pipelines.page_cache.cache import open_store
from pipelines.page_cache.store import PageStore
from tests.support.s3 import get_bucket
from tests.support.service import PATIENCE_SECONDS, wait_until

DAY = 86400
GIB = 2**30
Open = Callable[[], PageStore]


def page(number: int, body: bytes = b"<p>body</p>", **changes: object) -> Page:
    url = f"http://shop.test/{number}?q=%C3%BC"
    fields = (url, url + "&final", 200, None, "text/html", "utf-8", body, datetime.now(UTC))
    return replace(Page(*fields, (url + "&a",), b"ETag: x\r\n"), **changes)


@pytest.fixture(params=["folder", "bucket"])
def location(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The location of a new store of each kind."""
    if request.param == "folder":
        return str(tmp_path / "pages")
    bucket = get_bucket()
    for name, value in bucket.user_environment.items():
        monkeypatch.setenv(name, value)
    return f"{bucket.address}/pages"


@pytest.fixture
def opened(location: str) -> Iterator[Open]:
    """Opens the store, once more with each call."""
    stores = list[PageStore]()

    def open_again() -> PageStore:
        stores.append(open_store(location))
        return stores[-1]

    yield open_again
    for store in stores:
        store.close()


def test_pages_are_found_as_they_were_added(opened: Open) -> None:
    pages = [page(number, bytes(range(256)) * number, status=404 if number % 2 else 200) for number in range(200)]
    store = opened()
    for each in pages:
        store.add("", each)
    assert [store.lookup("", each.requested_url) for each in pages] == pages
    store.close()
    other = opened()
    assert [other.lookup("", each.requested_url) for each in reversed(pages)] == pages[::-1]


def test_variants_are_separate_pages(opened: Open) -> None:
    store = opened()
    for variant in ("", "scroll"):
        store.add(variant, page(1, variant.encode()))
    store.flush(force=True)
    found = [opened().lookup(variant, page(1).requested_url) for variant in ("", "scroll", "wait")]
    assert [each.body if each else None for each in found] == [b"", b"scroll", None]


def test_a_newer_page_replaces_an_older_one(opened: Open) -> None:
    for body in (b"first", b"second", b"third"):
        store = opened()
        store.add("", page(1, body))
        store.close()
    found = opened().lookup("", page(1).requested_url)
    assert found.body == b"third"


@pytest.mark.long
def test_pages_of_a_slow_writer_are_visible_after_a_second(opened: Open) -> None:
    writer, reader = opened(), opened()
    writer.add("", page(1))
    assert reader.lookup("", page(1).requested_url) is None

    def is_visible() -> bool:
        writer.flush()
        return reader.lookup("", page(1).requested_url) is not None

    wait_until(is_visible, PATIENCE_SECONDS)


def write_and_read(location: str, part: int) -> int:
    store = open_store(location)
    for number in range(part, 400, 4):
        store.add("", page(number, b"%d" % number))
        store.lookup("", page(number - 1).requested_url)
    store.close()
    return sum(store.lookup("", page(number).requested_url) is not None for number in range(part, 400, 4))


@pytest.mark.long
def test_several_processes_write_and_read_at_once(location: str, opened: Open) -> None:
    with ProcessPoolExecutor(4, get_context("spawn")) as processes:
        found = list(processes.map(write_and_read, [location] * 4, range(4)))
    assert found == [100] * 4
    store = opened()
    for number in range(400):
        each = store.lookup("", page(number).requested_url)
        assert each.body == b"%d" % number


def test_written_pages_survive_a_kill(location: str, opened: Open) -> None:
    script = """
import os, signal, sys
from pipelines.page_cache.cache import open_store
from tests.pipelines.page_cache.test_contract import page
store = open_store(sys.argv[1])
for number in range(1000):
    store.add("", page(number))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, location], check=False)
    assert done.returncode == -signal.SIGKILL
    store = opened()
    least = 900 if is_local(location) else 500  # a file in a bucket has more pages
    assert least <= sum(store.lookup("", page(number).requested_url) is not None for number in range(1000)) < 1000


def test_compacting_deletes_pages_that_are_too_old(opened: Open) -> None:
    store = opened()
    store.add("", page(1))
    store.flush(force=True)
    store.compact(DAY, GIB)
    assert opened().lookup("", page(1).requested_url) is not None
    store.compact(-1, GIB)
    assert opened().lookup("", page(1).requested_url) is None


def measure(location: str) -> int:
    """The bytes of all files of a store."""
    if is_local(location):
        return sum(file.stat().st_size for file in Path(location).iterdir())
    return sum(file.size for digit in "0123456789abcdef" for file in list_data_files(f"{location}/v1/{digit}"))


def test_compacting_deletes_the_oldest_pages_of_too_large_a_store(location: str, opened: Open) -> None:
    store = opened()
    for number in range(6000):
        store.add("", page(number, os.urandom(1000)))
    store.flush(force=True)
    store.compact(DAY, 4_000_000)
    found = [store.lookup("", page(number).requested_url) is not None for number in range(6000)]
    assert (found[0], found[-1]) == (False, True)
    assert found == sorted(found)
    store.close()
    assert measure(location) < 5_000_000
