"""Uploaded wheels: checked and unpacked without running anything of them.

Names, sizes and checksums are untrusted: names are checked before a file is written, sizes while it is unpacked, and
each file is compared with its checksum in RECORD.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import platform
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path, PurePosixPath

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import parse_tag, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from core.errors import BadInput, TooLarge

MAX_BYTES = 256 * 2**20  # unpacked
MAX_FILES = 10_000
MAX_NAME = 200
_CHUNK = 2**20
_NAME = re.compile(r"[A-Za-z0-9_.+-][A-Za-z0-9_.+ -]{0,199}")


@dataclass(frozen=True, slots=True)
class Wheel:
    """The metadata of a wheel; `entry_points` are its groups with their names and values."""

    file_name: str
    version: str
    summary: str
    digest: str
    entry_points: Mapping[str, Mapping[str, str]]


def unwrap(source: Path, file_name: str, folder: Path) -> tuple[Path, str]:
    """Return the wheel of an upload, itself or the only one in a zip, and its name; raise BadInput or TooLarge."""
    suffix = PurePosixPath(file_name).suffix.lower()
    if suffix == ".whl":
        return source, file_name
    if suffix != ".zip":
        sentence = f"'{file_name[:MAX_NAME]}' is neither a wheel (.whl) nor a zip with one. Build one with `uv build`."
        raise BadInput(sentence, code="unsupported-format", path="file")
    with _open(source) as archive:
        wheels = [each for each in archive.infolist() if each.filename.lower().endswith(".whl")]
        if len(wheels) != 1:
            raise _refuse(f"the zip has {len(wheels)} wheels; it must have one")
        name = PurePosixPath(wheels[0].filename).name
        target = folder / "inner.whl"
        _extract(archive, wheels[0], target, MAX_BYTES)
    return target, name


def unpack_wheel(source: Path, file_name: str, folder: Path) -> Wheel:
    """Unpack a wheel into a folder that any user can read, and return its metadata; raise BadInput or TooLarge."""
    _check_tags(file_name)
    with _open(source) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_FILES:
            raise TooLarge(f"A wheel has at most {MAX_FILES:,} files.", path="file")
        if sum(each.file_size for each in entries) > MAX_BYTES:
            raise _make_too_large()
        left = MAX_BYTES
        for entry in entries:
            path = folder.joinpath(*_check_name(entry))
            if entry.is_dir():
                path.mkdir(mode=0o755, parents=True, exist_ok=True)
                continue
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            left -= _extract(archive, entry, path, left)
    return _read_metadata(folder, file_name, _hash_file(source))


def _open(source: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise _refuse("it is not a zip file, or a damaged one") from error


def _check_name(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    """Return the parts of a file's path; raise BadInput for a path or a kind of file that could lead outside."""
    parts = PurePosixPath(entry.filename).parts
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if not parts or any(part in ("..", ".") or not _NAME.fullmatch(part) for part in parts):
        raise _refuse(f"it has a file with the path '{entry.filename[:MAX_NAME]}'")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refuse(f"'{entry.filename[:MAX_NAME]}' is a link or no ordinary file")
    return parts


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, most: int) -> int:
    """Write a file of the archive and return its size, of which nothing is believed."""
    size = 0
    try:
        with archive.open(entry) as content, target.open("xb") as file:
            while chunk := content.read(_CHUNK):
                size += len(chunk)
                if size > most:
                    raise _make_too_large()
                file.write(chunk)
    except FileExistsError as error:
        raise _refuse(f"it has two files '{entry.filename[:MAX_NAME]}'") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError) as error:
        raise _refuse(f"'{entry.filename[:MAX_NAME]}' is damaged, encrypted or unreadable") from error
    target.chmod(0o644)
    return size


def _check_tags(file_name: str) -> None:
    """Raise BadInput for a wheel of another Python or another machine."""
    try:
        parse_wheel_filename(file_name)
    except InvalidWheelFilename as error:
        raise _refuse("its name is not that of a wheel, such as weather-1.0-py3-none-any.whl") from error
    tags = parse_tag(file_name.removesuffix(".whl").split("-", 2)[2])
    if tags.isdisjoint(sys_tags()):
        raise BadInput(f"The wheel {file_name} does not fit this Python.", code="wrong-python", path="file")


def _read_metadata(folder: Path, file_name: str, digest: str) -> Wheel:
    infos = [
        each for each in folder.glob("*.dist-info") if (each / "METADATA").is_file() and (each / "RECORD").is_file()
    ]
    if len(infos) != 1:
        raise _refuse("it has no dist-info folder with METADATA and RECORD, or several")
    info = infos[0]
    _check_record(folder, info / "RECORD")
    metadata = Parser().parsestr((info / "METADATA").read_text("utf-8", "replace"), headersonly=True)
    required = str(metadata.get("Requires-Python") or "")
    try:
        fits = SpecifierSet(required).contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier as error:
        raise _refuse("its Requires-Python cannot be read") from error
    if not fits:
        sentence = f"The wheel needs Python {required}, and this is {platform.python_version()}."
        raise BadInput(sentence, code="wrong-python", path="file")
    return Wheel(
        file_name=file_name,
        version=str(metadata.get("Version") or "0")[:MAX_NAME],
        summary=str(metadata.get("Summary") or "")[:1000],
        digest=digest,
        entry_points=_read_entry_points(info / "entry_points.txt"),
    )


def _read_entry_points(path: Path) -> Mapping[str, Mapping[str, str]]:
    parser = ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] - names keep their case
    try:
        parser.read_string(path.read_text("utf-8") if path.is_file() else "")
    except (ConfigError, UnicodeDecodeError) as error:
        raise _refuse("its entry_points.txt cannot be read") from error
    return {group: dict(parser.items(group)) for group in parser.sections()}


def _check_record(folder: Path, record: Path) -> None:
    """Raise BadInput unless RECORD has each file with its checksum."""
    listed = dict(_read_record(record))
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each != record):
        name = path.relative_to(folder).as_posix()
        if name.startswith(f"{record.parent.name}/RECORD."):
            continue
        expected = listed.get(name)
        if expected is None:
            raise BadInput(f"RECORD has no checksum of '{name}'.", code="wrong-checksum", path="file")
        if expected != _encode_digest(_hash_file(path)):
            sentence = f"'{name}' differs from its checksum in RECORD: the wheel is damaged or was changed."
            raise BadInput(sentence, code="wrong-checksum", path="file")


def _read_record(record: Path) -> Iterator[tuple[str, str]]:
    try:
        rows = list(csv.reader(io.StringIO(record.read_text("utf-8"))))
    except (csv.Error, UnicodeDecodeError) as error:
        raise _refuse("its RECORD cannot be read") from error
    yield from ((row[0], row[1]) for row in rows if len(row) == 3 and row[1].startswith("sha256="))


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _encode_digest(digest: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()


def _refuse(reason: str) -> BadInput:
    return BadInput(f"The file is not a usable wheel: {reason}.", code="invalid-plugin", path="file")


def _make_too_large() -> TooLarge:
    return TooLarge(f"A wheel has at most {MAX_BYTES // 2**20} MiB, unpacked.", path="file")
