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
from uuid import uuid4

from core.infra.files import sync
from core.infra.storage.protocol import InvalidKey, NotStored, Reader, StoredFile

PARTIAL = ".partial"  # folder of files that are still being written
ABANDONED_SECONDS = 86400


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
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._new_partial()
        try:
            with partial.open("xb") as file:
                shutil.copyfileobj(content, file, 2**20)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        for folder in path.relative_to(self._root).parents:
            sync(self._root / folder)
        return self._describe(key, path.stat())

    def list(self, folder: str) -> Iterator[StoredFile]:
        top = self.path(folder)
        paths = [Path(parent, name) for parent, _, names in os.walk(top) for name in names]
        for key in sorted(path.relative_to(self._root).as_posix() for path in paths):
            try:
                yield self._describe(key, self.path(key).stat())
            except FileNotFoundError:  # deleted in the meantime
                continue

    def delete(self, key: str) -> None:
        self.path(key).unlink(missing_ok=True)

    def url_for(self, key: str, reader: Reader) -> str:
        return str(self.path(key))

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
