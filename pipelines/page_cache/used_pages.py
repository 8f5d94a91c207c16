"""Lists of the pages that an execution has used, by their keys in the organization's page store."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from pipelines.filesystem import S3Access, create_folder, list_data_files, read_file, write_file

_KEY_BYTES = 16
_LARGEST = 100_000  # keys of a file


class UsedPages:
    """Writes the keys of pages into files of a folder, which several processes share. Its files are small."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._keys: dict[bytes, None] = {}

    def add(self, key: bytes) -> None:
        self._keys[key] = None
        if len(self._keys) >= _LARGEST:
            self.close()

    def close(self) -> None:
        """Write the keys. Raise OSError."""
        if self._keys:
            create_folder(self._folder)
            write_file(f"{self._folder}/{uuid.uuid4().hex}.keys", b"".join(self._keys))
            self._keys.clear()


def read_used_pages(folders: Iterable[str], access: S3Access | None = None) -> dict[bytes, None]:
    """Return the keys of all files of the folders, some of which may be missing. Raise OSError."""
    files = [file.path for folder in folders for file in list_data_files(folder, access=access)]
    contents = (read_file(path, access) or b"" for path in files)
    return {
        content[start : start + _KEY_BYTES]: None
        for content in contents
        for start in range(0, len(content), _KEY_BYTES)
    }
