"""A package as bytes: a zip with a manifest that names the format and the SHA-256 of every other file.

The same contents give the same bytes. A reader trusts nothing: the names that a package may have are a closed list,
sizes are bounded while they are read, and what the zip says of itself is held against what is there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, BinaryIO, cast

from pydantic import TypeAdapter, ValidationError

from core.errors import BadInput, Detail, TooLarge
from core.infra.validation import NAME_LENGTH, deeper_than
from core.packages.contents import Contents
from pipelines.language.names import fold

FORMAT = "spindle-package"
VERSION = 1
MANIFEST = "manifest.json"
PARTS = tuple(Contents.model_fields)
FILES = {f"{part}.json": part for part in PARTS}
MAX_PACKAGE = 64 * 2**20
MAX_CONTENT = 128 * 2**20
MAX_VALUES = 2**20
MAX_DEPTH = 128
EPOCH = (1980, 1, 1, 0, 0, 0)
UNIX = 3
ENCRYPTED = 0x1
END = struct.Struct("<4s4H2LH")
ENTRY_SIGNATURE, END_SIGNATURE, ZIP64_LOCATOR = b"PK\1\2", b"PK\5\6", b"PK\6\7"
ZIP64_LOCATOR_BYTES = 20
MAX_DIRECTORY = 64 * 2**10
# a string, in a group, or a mark; an unfinished string too, so that it takes linear time
_TOKEN = re.compile(rb'("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))|\[|\{|,', re.DOTALL)


def write(contents: Contents) -> bytes:
    """The package; raises TooLarge when it would not be taken in again."""
    plain = contents.model_dump(mode="json", by_alias=True)
    files = {name: _text(plain[part]) for name, part in FILES.items()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files = {MANIFEST: _text({"format": FORMAT, "formatVersion": VERSION, "sha256": digests}), **files}
    if sum(map(len, files.values())) > MAX_CONTENT or _values(files) > MAX_VALUES:
        raise TooLarge("The projects are too large for one package. Export them one by one.")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.external_attr = UNIX, (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def read(package: BinaryIO) -> Contents:
    """The contents; raises BadInput with the reason for whatever is not a whole and honest package."""
    size = package.seek(0, os.SEEK_END)
    if size > MAX_PACKAGE:
        raise TooLarge(f"A package has at most {MAX_PACKAGE} bytes.")
    _check_end(package, size)
    try:
        with zipfile.ZipFile(package) as archive:
            entries = _entries(archive, size)
            files = {name: _content(archive, entries, name) for name in (MANIFEST, *FILES)}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error, ValueError, OSError) as error:
        raise bad("It is not a zip file, or a damaged one.") from error
    if _values(files) > MAX_VALUES:
        raise TooLarge(f"A package has at most {MAX_VALUES} values.")
    manifest = _json(MANIFEST, files.pop(MANIFEST))
    _check_format(manifest)
    _check_digests(manifest, files)
    contents = _contents({part: _json(name, files[name]) for name, part in FILES.items()})
    _check_names(contents)
    return contents


def bad(reason: str, path: str = "package") -> BadInput:
    return BadInput(f"The package cannot be imported. {reason}", [Detail(path, reason)])


def _text(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def _check_end(package: BinaryIO, size: int) -> None:
    """The central directory must fill the room before the end record, be small, and do without ZIP64."""
    if size < END.size or _part(package, 0, 4) != b"PK\3\4":
        raise bad("It is not a zip file, or a damaged one.")
    directory_end = size - END.size
    end = END.unpack(_part(package, directory_end, END.size))
    signature, *disks, count, directory_bytes, directory_at, comment_bytes = end
    if signature != END_SIGNATURE or comment_bytes:
        raise bad("It is not a zip file, or something follows its end.")
    locator_at = max(0, directory_end - ZIP64_LOCATOR_BYTES)
    if _part(package, locator_at, directory_end - locator_at).startswith(ZIP64_LOCATOR):
        raise bad("It is a ZIP64 file, which packages are not.")
    if directory_bytes > MAX_DIRECTORY or directory_at + directory_bytes != directory_end:
        raise bad("Its list of files is too long, or not where the zip file says.")
    if disks != [0, 0, count] or count != _part(package, directory_at, directory_bytes).count(ENTRY_SIGNATURE):
        raise bad("It has not as many files as the zip file says.")


def _part(package: BinaryIO, at: int, size: int) -> bytes:
    package.seek(at)
    return package.read(size)


def _entries(archive: zipfile.ZipFile, package_bytes: int) -> Mapping[str, zipfile.ZipInfo]:
    expected = {MANIFEST, *FILES}
    found = archive.infolist()
    for entry in found:
        if entry.orig_filename not in expected:
            raise bad(f"It holds a file that does not belong there: {entry.orig_filename[:100]!r}.")
        if entry.flag_bits & ENCRYPTED:
            raise bad(f"'{entry.filename}' is encrypted.")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise bad(f"'{entry.filename}' is not a regular file.")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise bad(f"'{entry.filename}' is compressed in a way that packages are not.")
    by_name = {entry.filename: entry for entry in found}
    if len(by_name) != len(found):
        raise bad("It holds a file twice.")
    if missing := sorted(expected - by_name.keys()):
        raise bad(f"It lacks {', '.join(missing)}.")
    if sum(entry.compress_size for entry in found) > package_bytes:
        raise bad("Its files are larger than the package.")
    if sum(entry.file_size for entry in found) > MAX_CONTENT:
        raise TooLarge(f"The package unpacks to more than {MAX_CONTENT} bytes.")
    return by_name


def _content(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
    """Never more than the entry says, whose sum is bounded."""
    entry = entries[name]
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise bad(f"'{name}' has not the size that the zip file says.")
    return content


def _values(files: Mapping[str, bytes]) -> int:
    """At least as many as parsing would make: a few bytes of a zip unpack to millions, each much larger in memory.

    It is told by the marks in front of them; a mark has two strings at most, a key and its value. Nothing is gathered,
    and nobody counts on when there are too many.
    """
    tokens = (token.lastindex for content in files.values() for token in _TOKEN.finditer(content))
    counts = Counter(islice(tokens, 3 * MAX_VALUES + 1))
    return max(counts[None], (counts[1] + 1) // 2)


def _json(name: str, content: bytes) -> Any:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise bad(f"'{name}' is not JSON.", name) from error
    if deeper_than(MAX_DEPTH, value):
        raise bad(f"'{name}' is nested deeper than {MAX_DEPTH} levels.", name)
    return value


def _check_format(manifest: Any) -> None:
    fields = cast(dict[str, Any], manifest) if isinstance(manifest, dict) else {}
    version = fields.get("formatVersion")
    if fields.get("format") != FORMAT or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise bad(f"Its manifest is not that of a {FORMAT}.", MANIFEST)
    if version > VERSION:
        sentence = f"Its format version is {version}, and this Spindle reads up to {VERSION}: update it first."
        raise bad(sentence, MANIFEST)


def _check_digests(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    if manifest.get("sha256") != digests:
        told = manifest.get("sha256")
        differing = [name for name in digests if not isinstance(told, dict) or told.get(name) != digests[name]]
        raise bad(f"The checksums of its manifest do not fit: {', '.join(differing) or MANIFEST}.", MANIFEST)


def _check_names(contents: Contents) -> None:
    """What is found by its name is there once; jobs, and agents without a category, are told apart by their order."""
    _check_once("categories", (category.name for category in contents.categories))
    _check_once("projects", (project.name for project in contents.projects))
    _check_once("agents", ((agent.category, agent.name) for agent in contents.agents if agent.category))
    for agent in contents.agents:
        _check_once("agents", ((agent.name, fold(extension.name)) for extension in agent.extensions))


def _check_once(part: str, names: Iterable[str | tuple[str | None, str]]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            shown = name if isinstance(name, str) else "/".join(filter(None, name))
            raise bad(f"Its {part} hold '{shown[:NAME_LENGTH]}' {count} times.", part)


def _contents(parts: Mapping[str, Any]) -> Contents:
    try:
        return TypeAdapter(Contents).validate_python(parts)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise bad(f"{path}: {first['msg']}.", path) from error
