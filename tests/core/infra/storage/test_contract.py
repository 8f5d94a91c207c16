"""The contract of Storage, which every implementation passes."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import InvalidKey, NotStored, Reader, Storage
from tests.support.s3 import get_bucket


@pytest.fixture(params=["local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """One storage of each kind that the settings can select."""
    chosen: dict[str, Any] = get_bucket().settings if request.param == "s3" else {"storage": None}
    return open_storage(Settings(data=tmp_path, **chosen).storage)


def put(storage: Storage, key: str, content: bytes) -> None:
    storage.put(key, io.BytesIO(content))


def read(storage: Storage, key: str) -> bytes:
    with storage.open(key) as file:
        return file.read()


def test_put_stores_the_rest_of_the_stream(storage: Storage) -> None:
    content = io.BytesIO(b"skipped content")
    content.seek(8)
    begun = datetime.now(UTC) - timedelta(seconds=1)  # S3 has whole seconds
    stored = storage.put("o/a/b.txt", content)
    assert (stored.key, stored.size_bytes) == ("o/a/b.txt", 7)
    assert begun <= stored.modified_at <= datetime.now(UTC)
    assert read(storage, "o/a/b.txt") == b"content"


def test_put_replaces_a_file(storage: Storage) -> None:
    put(storage, "o/a", b"a longer first content")
    put(storage, "o/a", b"second")
    assert read(storage, "o/a") == b"second"


def test_a_reader_keeps_the_file_that_it_opened(storage: Storage) -> None:
    put(storage, "o/a", b"first")
    with storage.open("o/a") as file:
        put(storage, "o/a", b"second")
        assert file.read() == b"first"


class Broken(io.RawIOBase):
    """A stream that fails after some content, as a lost connection does."""

    def __init__(self) -> None:
        self._chunks: Iterator[bytes] = iter([b"part of the content"])

    def read(self, size: int = -1, /) -> bytes:
        try:
            return next(self._chunks)
        except StopIteration:
            raise ConnectionResetError from None


def test_a_put_that_fails_leaves_the_earlier_file(storage: Storage) -> None:
    put(storage, "o/a", b"first")
    for key in ("o/a", "o/new"):
        with pytest.raises(ConnectionResetError):
            storage.put(key, Broken())  # pyright: ignore[reportArgumentType]
    assert read(storage, "o/a") == b"first"
    assert [file.key for file in storage.list("o")] == ["o/a"]


def test_open_returns_a_seekable_stream(storage: Storage) -> None:
    put(storage, "o/a", bytes(range(100)))
    with storage.open("o/a") as file:
        assert file.seek(0, os.SEEK_END) == 100
        file.seek(-3, os.SEEK_END)
        assert file.read(2) == bytes([97, 98])
        file.seek(5)
        assert file.read(1) == bytes([5])


@pytest.mark.parametrize("key", ["o/missing", "o/folder", "o/folder/file/below"])
def test_open_refuses_a_key_without_a_file(storage: Storage, key: str) -> None:
    put(storage, "o/folder/file", b"")
    with pytest.raises(NotStored):
        storage.open(key)


def test_list_yields_all_files_below_a_folder_by_key(storage: Storage) -> None:
    for key in ("o/f/b", "o/f/a/c", "o/f/a.txt", "o/fa", "p/f/a"):
        put(storage, key, key.encode())
    assert [(file.key, file.size_bytes) for file in storage.list("o/f")] == [
        ("o/f/a.txt", 9),
        ("o/f/a/c", 7),
        ("o/f/b", 5),
    ]
    assert list(storage.list("o/missing")) == []


def test_delete_removes_one_file_and_may_be_repeated(storage: Storage) -> None:
    for key in ("o/a", "o/b"):
        put(storage, key, b"")
    for _ in range(2):
        storage.delete("o/a")
    assert [file.key for file in storage.list("o")] == ["o/b"]


@pytest.mark.parametrize("key", ["", "/", "/etc/passwd", "o//a", "o/../../a", "o/./a", "o/a/", "..", "o/a\0b"])
def test_keys_that_are_not_normalized_are_refused(storage: Storage, key: str) -> None:
    for use in (
        lambda: storage.open(key),
        lambda: storage.put(key, io.BytesIO(b"")),
        lambda: list(storage.list(key)),
        lambda: storage.delete(key),
        lambda: storage.url_for(key, "spark"),
    ):
        with pytest.raises(InvalidKey):
            use()


@pytest.mark.parametrize("reader", ["spark", "sql", "signed"])
def test_urls_end_with_the_key(storage: Storage, reader: Reader) -> None:
    """Completion reports are matched by it."""
    assert urlsplit(storage.url_for("o/executions/e/1/output", reader)).path.endswith("/o/executions/e/1/output")


@pytest.mark.parametrize("key", ["o/executions/e/1/output", "o/datasets/ü b%20c+d/part 0"])
def test_a_key_is_found_by_its_url(storage: Storage, key: str) -> None:
    url = storage.url_for(key, "spark")
    assert storage.find_key(url) == key
    assert storage.find_key(f"s3://elsewhere/{key}") is None
    assert storage.find_key(f"/elsewhere/{key}") is None


def test_keys_may_have_any_characters(storage: Storage) -> None:
    keys = sorted(f"o/f/{name}" for name in ("a b", "a+b", "a%20b", "ü", "a=b&c", "a#b?c"))
    for key in keys:
        put(storage, key, key.encode())
    assert [file.key for file in storage.list("o/f")] == keys
    assert [read(storage, key) for key in keys] == [key.encode() for key in keys]


def test_a_file_of_many_parts_is_stored_and_read_whole(storage: Storage) -> None:
    content = random.Random(1).randbytes(20 * 2**20 + 7)
    assert storage.put("o/large", io.BytesIO(content)).size_bytes == len(content)
    assert read(storage, "o/large") == content
    with storage.open("o/large") as file:
        for position in (17 * 2**20, 5, 9 * 2**20):
            file.seek(position)
            assert file.read(1000) == content[position : position + 1000]


def test_a_usable_storage_passes_its_check(storage: Storage) -> None:
    storage.check()
    assert list(storage.list("o")) == []
