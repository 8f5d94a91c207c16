"""What object storage adds to the contract of page stores: merged files, and a storage that is away."""

from __future__ import annotations

import pytest

from pipelines.filesystem import list_data_files
from pipelines.page_cache.cache import open_store
from tests.pipelines.page_cache.test_contract import DAY, GIB, page
from tests.support.s3 import get_bucket
from tests.support.service import free_port


def test_small_files_become_one_and_readers_find_their_pages_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = get_bucket()
    for name, value in bucket.user_environment.items():
        monkeypatch.setenv(name, value)
    location = f"{bucket.address}/pages"
    for number in range(9):
        store = open_store(location)
        store.add("", page(1, b"%d" % number))
        store.close()
    reader, other = open_store(location), open_store(location)
    assert reader.lookup("", page(1).requested_url) is not None
    other.compact(DAY, GIB)
    assert sum(len(list_data_files(f"{location}/v1/{digit:x}")) for digit in range(16)) == 1
    for each in (reader, other, open_store(location)):
        found = each.lookup("", page(1).requested_url)
        assert found.body == b"8"


@pytest.mark.long
def test_a_storage_that_is_away_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for name, value in (variables | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}).items():
        monkeypatch.setenv(name, value)
    store = open_store("s3://bucket/pages")
    assert store.lookup("", page(1).requested_url) is None
    store.add("", page(1))
    store.close()
    with pytest.raises(OSError, match="bucket"):
        open_store("s3://bucket/pages").compact(DAY, GIB)
