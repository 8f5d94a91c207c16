"""Downloaded files: kept by the hash of their content, within a limit for all files of a run."""

from __future__ import annotations

import fcntl
import uuid
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pipelines.fetch.page import Page
from pipelines.filesystem import has_file, is_local, list_data_files, write_file

FILE_COLUMNS = (("_path", "string"), ("_type", "string"), ("_bytes", "bigint"), ("_sha256", "string"))
_used_bytes: dict[str, int] = {}  # of this process, by folder in a bucket
_USED = ".bytes"  # of all files, in a file that processes lock


class FileNotKept(Exception):
    """The file cannot be stored; the message says why."""


@dataclass(frozen=True, slots=True)
class FileFolder:
    """A folder for files; `prefix` stands before their names in the column `_path`."""

    path: str
    prefix: str
    max_bytes: int = 10 * 1024**3

    def add(self, page: Page) -> dict[str, object]:
        """Store the body of a page, once for equal ones, and return FILE_COLUMNS; raise FileNotKept."""
        values = describe_file(page)
        if not is_local(self.path):
            self._add_to_bucket(str(values["_sha256"]), page.body)
            return values | {"_path": f"{self.prefix}/{values['_sha256']}"}
        name, folder = str(values["_sha256"]), Path(self.path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / name).exists():
                self._claim(folder, len(page.body))
                partial = folder / f".{name}.{uuid.uuid4().hex}"
                partial.write_bytes(page.body)
                partial.chmod(0o444)
                partial.rename(folder / name)
        except OSError as error:
            raise FileNotKept(f"the file cannot be stored: {error.strerror}") from error
        return values | {"_path": f"{self.prefix}/{name}"}

    def _add_to_bucket(self, name: str, body: bytes) -> None:
        """Store a file. The limit counts the files there at this process's first one, and its own since."""
        address = f"{self.path}/{name}"
        try:
            if self.path not in _used_bytes:
                _used_bytes[self.path] = sum(file.size for file in list_data_files(self.path))
            if has_file(address):
                return
            if _used_bytes[self.path] + len(body) > self.max_bytes:
                raise FileNotKept(f"the files of this run would exceed {self.max_bytes:,} bytes")
            write_file(address, body)
        except OSError as error:
            raise FileNotKept("the file cannot be stored: the storage does not answer") from error
        _used_bytes[self.path] += len(body)

    def _claim(self, folder: Path, size: int) -> None:
        """Count `size` more bytes; raise FileNotKept above the limit."""
        with (folder / _USED).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            used = int(file.read() or 0) + size
            if used > self.max_bytes:
                raise FileNotKept(f"the files of this run would exceed {self.max_bytes:,} bytes")
            file.truncate(0)
            file.write(str(used))


def describe_file(page: Page) -> dict[str, object]:
    """Return FILE_COLUMNS of a page's body that is not stored."""
    digest = sha256(page.body).hexdigest()
    return {"_path": None, "_type": page.content_type, "_bytes": len(page.body), "_sha256": digest}
