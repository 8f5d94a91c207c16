"""Storage in a folder of this machine."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from core.infra.files import check_folder, describe_disk_fault, sync
from core.infra.storage.protocol import InvalidKey, NotStored, Reader, StoredFile

PARTIAL = ".partial"  # folder of files that are still being written
ABANDONED_SECONDS = 86400
STORAGE = "service's storage"


class LocalStorage:
    """Implements Storage below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def path(self, key: str) -> Path:
        """Return where the key's file is on this machine, for compute that runs here."""
        if not key or any(part in ("", ".", "..") for part in key.split("/")) or "\0" in key:
            raise InvalidKey(key)
        path = self._root / key
        if not path.resolve().is_relative_to(self._root / key.partition("/")[0]):
            raise InvalidKey(key)
        return path

    def open(self, key: str) -> BinaryIO:
        try:
            return self.path(key).open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotStored(key) from error

    def put(self, key: str, content: BinaryIO) -> StoredFile:
        path = self.path(key)
        partial = self._new_partial()
        try:
            with partial.open("xb") as file:
                shutil.copyfileobj(content, file, 2**20)
                file.flush()
                os.fsync(file.fileno())
            path.parent.mkdir(parents=True, exist_ok=True)  # late: a delete removes empty folders
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        for folder in path.relative_to(self._root).parents:
            sync(self._root / folder)
        return self._describe(key, path.stat())

    def list(self, folder: str) -> Iterator[StoredFile]:
        for path in _walk(self.path(folder)):
            key = path.relative_to(self._root).as_posix()
            try:
                yield self._describe(key, self.path(key).stat())
            except (FileNotFoundError, InvalidKey):  # deleted in the meantime, or a link that leads out
                continue

    def delete(self, key: str) -> None:
        path = self.path(key)
        path.unlink(missing_ok=True)
        with suppress(OSError):  # one is not empty
            for folder in path.relative_to(self._root).parents[:-1]:
                (self._root / folder).rmdir()

    def url_for(self, key: str, reader: Reader) -> str:
        return str(self.path(key))

    def export_access(self) -> None:
        return None

    def find_key(self, url: str) -> str | None:
        path = unquote(urlsplit(url).path) if url.startswith("file:") else url
        try:
            return Path(path).relative_to(self._root).as_posix() if "\0" not in path else None
        except ValueError:
            return None

    def check(self) -> None:
        try:
            folder = self._new_partial().parent
        except OSError as error:
            raise describe_disk_fault(error, STORAGE) from error
        check_folder(folder, STORAGE)

    def _new_partial(self) -> Path:
        folder = self._root / PARTIAL
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():  # left by processes that were killed
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()
        return folder / uuid4().hex

    def _describe(self, key: str, stat: os.stat_result) -> StoredFile:
        return StoredFile(key, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in the order of their keys, one folder in memory at a time."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(f"{each.name}/" if each.is_dir(follow_symlinks=False) else each.name for each in entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.endswith("/"):
            yield from _walk(folder / name[:-1])
        else:
            yield folder / name
