"""The SQLite store: damaged and unusable files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.page_cache.cache import open_store
from tests.pipelines.page_cache.test_contract import DAY, GIB, page


def database(folder: Path) -> Path:
    """The database with one page."""
    store = open_store(str(folder))
    store.add("", page(1))
    store.close()
    (file,) = folder.glob("*.sqlite")
    return file


def test_a_changed_page_is_not_found(tmp_path: Path) -> None:
    file = database(tmp_path)
    content = file.read_bytes()
    at = content.index(b"ETag")
    file.write_bytes(content[:at] + b"F" + content[at + 1 :])
    store = open_store(str(tmp_path))
    assert store.lookup("", page(1).requested_url) is None
    store.close()


def test_a_damaged_database_is_empty_until_it_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database(tmp_path).write_bytes(b"no database" * 1000)
    store = open_store(str(tmp_path))
    store.add("", page(2))
    assert store.lookup("", page(1).requested_url) is None
    store.close()
    assert "cannot be used" in caplog.text
    store = open_store(str(tmp_path))
    store.compact(DAY, GIB)
    store.add("", page(3))
    store.flush(force=True)
    assert store.lookup("", page(3).requested_url) is not None
    store.close()


def test_a_file_in_place_of_the_folder_fails_only_compaction(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("")
    store = open_store(str(tmp_path / "pages"))
    store.add("", page(1))
    store.close()
    with pytest.raises(OSError, match="pages"):
        open_store(str(tmp_path / "pages")).compact(DAY, GIB)
