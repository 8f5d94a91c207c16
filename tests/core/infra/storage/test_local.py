"""What the data folder adds to the contract of Storage."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import InvalidKey


def test_a_link_that_leads_out_of_the_organization_is_refused(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "storage")
    storage.put("o/a", io.BytesIO(b""))
    storage.put("other/secret", io.BytesIO(b"secret"))
    (tmp_path / "storage/o/link").symlink_to(tmp_path / "storage/other")
    for key in ("o/link", "o/link/secret"):
        with pytest.raises(InvalidKey):
            storage.open(key)
    (tmp_path / "storage/o/file").symlink_to(tmp_path / "storage/other/secret")
    assert [each.key for each in storage.list("o")] == ["o/a"]


def test_a_file_is_on_disk_with_its_name_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    root = tmp_path / "storage"
    LocalStorage(root).put("o/packages/a.zip", io.BytesIO(b"content"))
    for path in (root / "o/packages/a.zip", root / "o/packages", root / "o", root):
        assert path.stat().st_ino in synced


def test_partial_files_of_killed_processes_are_deleted_after_a_day(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("o/a", io.BytesIO(b""))
    old, new = tmp_path / ".partial/old", tmp_path / ".partial/new"
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (0, 0))
    storage.put("o/b", io.BytesIO(b""))
    assert (old.exists(), new.exists()) == (False, True)
