"""S3 behind a proxy that refuses, delays, resets and loses: an operation is done whole, or fails with a reason."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import Unavailable
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import Storage
from tests.support.faulty_proxy import Fault, FaultyProxy, serve_faulty_proxy
from tests.support.s3 import Bucket, get_bucket

CONTENT = random.Random(2).randbytes(20 * 2**20)  # three parts


@pytest.fixture
def bucket() -> Bucket:
    return get_bucket()


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultyProxy]:
    with serve_faulty_proxy(bucket.endpoint) as proxy:
        yield proxy


@pytest.fixture
def storage(bucket: Bucket, proxy: FaultyProxy, tmp_path: Path) -> Storage:
    return open_storage(Settings(data=tmp_path, **(bucket.settings | {"s3_endpoint": proxy.url})).storage)


def read(storage: Storage, key: str) -> bytes:
    with storage.open(key) as file:
        return file.read()


@pytest.mark.parametrize(
    ("fault", "pattern", "times"),
    [("slow", "", None), ("reset", "", 2), ("reset", "partNumber=2", 2), ("refused", "", 1)],
    ids=["slow", "reset", "lost part", "refused"],
)
def test_a_fault_that_passes_is_not_noticed(
    storage: Storage, proxy: FaultyProxy, fault: Fault, pattern: str, times: int | None
) -> None:
    proxy.fail(fault, pattern, times)
    storage.put("o/a", io.BytesIO(CONTENT))
    assert [file.size_bytes for file in storage.list("o")] == [len(CONTENT)]
    assert read(storage, "o/a") == CONTENT
    assert proxy.hits


def test_reading_goes_on_after_a_lost_connection(storage: Storage, proxy: FaultyProxy) -> None:
    storage.put("o/a", io.BytesIO(CONTENT))
    proxy.fail("truncated", "GET", 3)
    assert read(storage, "o/a") == CONTENT
    assert proxy.hits == 3


@pytest.mark.parametrize(
    ("fault", "pattern"),
    [("reset", "partNumber=2"), ("reset", "POST"), ("refused", "")],
    ids=["lost part", "lost end", "refused"],
)
def test_a_put_that_fails_leaves_the_earlier_file(
    storage: Storage, proxy: FaultyProxy, bucket: Bucket, fault: Fault, pattern: str
) -> None:
    storage.put("o/a", io.BytesIO(b"first"))
    proxy.fail(fault, pattern)
    for key in ("o/a", "o/new"):
        with pytest.raises(Unavailable) as raised:
            storage.put(key, io.BytesIO(CONTENT))
        assert raised.value.details[0].code == "storage-unavailable"
    proxy.fail(None)
    assert bucket.list() == ["o/a"]
    assert read(storage, "o/a") == b"first"


def test_a_file_that_is_replaced_while_it_is_read_is_never_mixed(storage: Storage, proxy: FaultyProxy) -> None:
    storage.put("o/a", io.BytesIO(CONTENT))
    with storage.open("o/a") as file:
        file.read(10)
        storage.put("o/a", io.BytesIO(CONTENT[::-1]))
        file.seek(15 * 2**20)
        with pytest.raises(Unavailable):
            file.read(10)
