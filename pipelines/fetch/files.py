"""Downloaded files: kept by the hash of their content, within a limit for all files of a folder."""

from __future__ import annotations

import fcntl
import mimetypes
import os
import re
import time
import unicodedata
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from filecmp import cmp
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from pipelines.fetch.page import Page
from pipelines.filesystem import find_write_time, is_local, list_data_files, write_file

FILE_COLUMNS = (("_path", "string"), ("_type", "string"), ("_bytes", "bigint"), ("_sha256", "string"))
NAME_COLUMN = ("_name", "string")
_COLUMN = re.compile(r"\$(\w+)")
_FORBIDDEN = re.compile(
    r'[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069/\\:*?"<>|]+'
)  # in names on any system
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)  # names of devices on Windows
_LONGEST_NAME = 180  # bytes, of the 255 that file systems allow
_used_bytes: dict[str, int] = {}  # of this process, by folder in a bucket
RENEW_SECONDS = 3600.0  # after which a file in a bucket is written again, so that it has the time of its last use
_USED = ".bytes"  # of all files, in a file that processes lock


class FileNotKept(Exception):
    """The file cannot be stored; the message says why."""


@dataclass(frozen=True, slots=True)
class FileFolder:
    """A folder for files; `prefix` begins their paths in the column `_path`.

    Without a path, files are described and not stored. With `has_names`, files have the names that pipelines give them,
    as on a person's machine; otherwise only hashes.
    """

    path: str
    prefix: str
    max_bytes: int = 10 * 1024**3
    has_names: bool = False

    def add(self, page: Page, named: bool = False) -> dict[str, object]:
        """Store the body of a page, once for equal ones, and return FILE_COLUMNS; raise FileNotKept.

        A file that will be `named` is hidden until then.
        """
        digest = sha256(page.body).hexdigest()
        path = self._store(f"{'.' if named and self.has_names else ''}{digest}", page.body)
        return {"_path": path, "_type": page.content_type, "_bytes": len(page.body), "_sha256": digest}

    def add_picture(self, body: bytes) -> str | None:
        """Store a PNG and return its path; raise FileNotKept."""
        return self._store(f"{sha256(body).hexdigest()}{'.png' if self.has_names else ''}", body)

    def name_file(self, values: dict[str, object], wanted: str) -> dict[str, object]:
        """Return FILE_COLUMNS of a stored file with its name; raise FileNotKept.

        A name that another file has is followed by the first digits of the hash.
        """
        digest = str(values["_sha256"])
        name = make_file_name(wanted, values["_type"], digest)
        if not self.has_names:
            return values | {NAME_COLUMN[0]: name}
        stem, suffix = os.path.splitext(name)
        for each in (name, f"{stem}-{digest[:8]}{suffix}"):
            if self._link(Path(self.path, f".{digest}"), Path(self.path, each)):
                return values | {"_path": f"{self.prefix}/{each}", NAME_COLUMN[0]: each}
        raise FileNotKept(f"the file cannot be stored: there is another one at {self.prefix}/{name}")

    def _link(self, file: Path, place: Path) -> bool:
        """Return whether `place` is the file now; False where there is another one."""
        try:
            place.hardlink_to(file)
        except FileExistsError:
            return place.is_file() and cmp(file, place, shallow=False)
        except OSError as error:
            raise FileNotKept(f"the file cannot be stored: {error.strerror}") from error
        return True

    def _store(self, name: str, body: bytes) -> str | None:
        """Store a file, once for equal names, and return its path; raise FileNotKept."""
        if not self.path:
            return None
        if not is_local(self.path):
            self._add_to_bucket(name, body)
            return f"{self.prefix}/{name}"
        folder = Path(self.path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                os.utime(folder / name)  # the service deletes files that no run has kept for long and no rows name
            if not (folder / name).exists():
                self._claim(folder, len(body))
                partial = folder / f".{name}.{uuid.uuid4().hex}"
                partial.write_bytes(body)
                partial.chmod(0o444)
                partial.rename(folder / name)
        except OSError as error:
            raise FileNotKept(f"the file cannot be stored: {error.strerror}") from error
        return f"{self.prefix}/{name}"

    def _add_to_bucket(self, name: str, body: bytes) -> None:
        """Store a file. The limit counts the files there at this process's first one, and its own since."""
        address = f"{self.path}/{name}"
        try:
            if self.path not in _used_bytes:
                _used_bytes[self.path] = sum(file.size for file in list_data_files(self.path))
            written_at = find_write_time(address)
            if written_at is not None and time.time() - written_at < RENEW_SECONDS:
                return
            size = len(body) if written_at is None else 0
            if _used_bytes[self.path] + size > self.max_bytes:
                raise FileNotKept(f"the kept files would exceed {self.max_bytes:,} bytes")
            write_file(address, body)
        except OSError as error:
            raise FileNotKept("the file cannot be stored: the storage does not answer") from error
        _used_bytes[self.path] += size

    def _claim(self, folder: Path, size: int) -> None:
        """Count `size` more bytes; raise FileNotKept above the limit."""
        with _open_count(folder) as file:
            used = int(file.read() or 0) + size
            if used > self.max_bytes:
                raise FileNotKept(f"the kept files would exceed {self.max_bytes:,} bytes")
            file.truncate(0)
            file.write(str(used))


def release_bytes(folder: Path, size: int) -> None:
    """Count `size` bytes less, of files that were deleted from a folder."""
    with _open_count(folder) as file:
        used = max(0, int(file.read() or 0) - size)
        file.truncate(0)
        file.write(str(used))


@contextmanager
def _open_count(folder: Path) -> Generator[IO[str]]:
    """Open the number of all bytes in a folder, which other processes wait for meanwhile."""
    with (folder / _USED).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


@dataclass(frozen=True, slots=True)
class FileName:
    """A name for files with `$column` in it, which means the row's value."""

    text: str

    def list_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_COLUMN.findall(self.text)))

    def fill(self, values: Mapping[str, Any]) -> str:
        """Return the name for a row."""
        return _COLUMN.sub(lambda match: "" if (value := values.get(match[1])) is None else str(value), self.text)


def make_file_name(wanted: str, media_type: object, fallback: str) -> str:
    """Return a name that leads out of no folder, with an extension that fits the media type.

    Without letters or digits left of it, the name is `fallback`.
    """
    text = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", wanted)).strip(" ._")
    stem, suffix = os.path.splitext(text)
    fitting = _list_suffixes(media_type)
    if fitting and suffix.casefold() not in fitting:
        known = suffix.casefold() in mimetypes.types_map or suffix.casefold() in mimetypes.common_types
        stem, suffix = (stem if known else text), fitting[0]
    stem = stem.strip(" .") or fallback
    if _RESERVED.fullmatch(stem):
        stem = f"_{stem}"
    return f"{stem.encode()[: _LONGEST_NAME - len(suffix.encode())].decode(errors='ignore')}{suffix}"


def _list_suffixes(media_type: object) -> list[str]:
    """Return the extensions of a media type, the usual one first; empty for general types."""
    if not isinstance(media_type, str) or media_type in ("application/octet-stream", "text/plain"):
        return []
    usual = mimetypes.guess_extension(media_type, strict=False)
    return [usual, *mimetypes.guess_all_extensions(media_type, strict=False)] if usual else []
