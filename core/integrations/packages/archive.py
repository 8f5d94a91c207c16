"""Packages: a declaration as a zip file with a manifest of the format version, checksum and plugins.

Equal declarations give equal bytes. `unpack` trusts nothing: file names are a closed list, sizes are limited while they
are read, and every claim of the zip file is compared with its content.
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
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from core.errors import BadInput, Detail, TooLarge
from core.infra.validation import NAME_LENGTH, exceeds_depth
from core.integrations.declarations.models import Declaration, format_name

FORMAT = "spindle-package"
VERSION = 1
MANIFEST, DECLARATION = "manifest.json", "declaration.json"
SECTIONS = {"category": "categories", "project": "projects"}
MAX_PACKAGE = 64 * 2**20
MAX_CONTENT = 128 * 2**20
MAX_VALUES = 2**20
MAX_DEPTH = 128
EPOCH = (1980, 1, 1, 0, 0, 0)
UNIX = 3
ENCRYPTED = 0x1
END_RECORD = struct.Struct("<4s4H2LH")
FILE_SIGNATURE, ENTRY_SIGNATURE, END_SIGNATURE, ZIP64_LOCATOR = b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\7"
ZIP64_LOCATOR_BYTES = 20
MAX_DIRECTORY = 64 * 2**10
NOT_A_ZIP = "It is not a zip file, or a damaged one."
# a string, in a group, or a bracket or comma; also an unfinished string, so that matching takes linear time
_TOKEN = re.compile(rb'("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))|\[|\{|,', re.DOTALL)


class Manifest(BaseModel):
    """`plugins` are the distributions whose stages the agents use."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, strict=True)

    format: Literal["spindle-package"] = FORMAT
    format_version: int = Field(default=VERSION, ge=1)
    sha256: str
    plugins: Sequence[str] = ()


def pack(declaration: Declaration, plugins: Sequence[str] = ()) -> bytes:
    """Return the package's bytes. Raises TooLarge when `unpack` would not accept them."""
    content = _to_json(declaration)
    manifest = Manifest(sha256=hashlib.sha256(content).hexdigest(), plugins=plugins)
    files = {MANIFEST: _to_json(manifest), DECLARATION: content}
    if sum(map(len, files.values())) > MAX_CONTENT or _count_values(files) > MAX_VALUES:
        raise TooLarge("The projects are too large for one package. Export them one by one.")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.external_attr = UNIX, (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def unpack(package: BinaryIO) -> Declaration:
    """Return the package's declaration. Raises BadInput with the reason for an incomplete or inconsistent package."""
    size = package.seek(0, os.SEEK_END)
    if size > MAX_PACKAGE:
        raise TooLarge(f"A package has at most {MAX_PACKAGE} bytes.")
    _check_directory(package, size)
    try:
        with zipfile.ZipFile(package) as archive:
            entries = _list_entries(archive, size)
            files = {name: _read_entry(archive, entries[name]) for name in (MANIFEST, DECLARATION)}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error, ValueError, OSError) as error:
        raise reject(NOT_A_ZIP) from error
    if _count_values(files) > MAX_VALUES:
        raise TooLarge(f"A package has at most {MAX_VALUES} values.")
    _check_manifest(files[MANIFEST], files[DECLARATION])
    try:
        declaration = Declaration.model_validate(_parse_json(DECLARATION, files[DECLARATION]))
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise reject(f"{path}: {first['msg']}.", path) from error
    if repeated := declaration.find_repeated(complete=True):
        (kind, *_), count = repeated
        section, name = SECTIONS.get(kind, "agents"), format_name(repeated[0])
        raise reject(f"Its {section} contain '{name[:NAME_LENGTH]}' {count} times.", section, "duplicate-name")
    return declaration


def reject(reason: str, path: str = "package", code: str = "invalid-package") -> BadInput:
    """Return the error for a package that cannot be imported."""
    return BadInput(f"The package cannot be imported. {reason}", [Detail(path, reason, code)])


def _to_json(model: BaseModel) -> bytes:
    plain = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return (json.dumps(plain, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def _check_directory(package: BinaryIO, size: int) -> None:
    """Check that the list of files is small, ends where the end record begins, and is not in ZIP64 format."""

    def read_at(offset: int, length: int) -> bytes:
        package.seek(offset)
        return package.read(length)

    if size < END_RECORD.size or read_at(0, 4) != FILE_SIGNATURE:
        raise reject(NOT_A_ZIP)
    directory_end = size - END_RECORD.size
    end_record = END_RECORD.unpack(read_at(directory_end, END_RECORD.size))
    signature, *disks, count, directory_bytes, directory_start, comment_bytes = end_record
    if signature != END_SIGNATURE or comment_bytes:
        raise reject("It is not a zip file, or something follows its end.")
    locator_start = max(0, directory_end - ZIP64_LOCATOR_BYTES)
    if read_at(locator_start, directory_end - locator_start).startswith(ZIP64_LOCATOR):
        raise reject("It is a ZIP64 file, a format that packages do not use.")
    if directory_bytes > MAX_DIRECTORY or directory_start + directory_bytes != directory_end:
        raise reject("Its list of files is too long, or not at the place that the zip file states.")
    if disks != [0, 0, count] or count != read_at(directory_start, directory_bytes).count(ENTRY_SIGNATURE):
        raise reject("Its number of files differs from the number that the zip file states.")


def _list_entries(archive: zipfile.ZipFile, package_bytes: int) -> Mapping[str, zipfile.ZipInfo]:
    """Return the files by name, after checks of everything that the zip file states about them."""
    expected = {MANIFEST, DECLARATION}
    found = archive.infolist()
    for entry in found:
        if entry.orig_filename not in expected:
            raise reject(f"It contains an unknown file: {entry.orig_filename[:100]!r}.")
        if entry.flag_bits & ENCRYPTED:
            raise reject(f"'{entry.filename}' is encrypted.")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise reject(f"'{entry.filename}' is not a regular file.")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise reject(f"'{entry.filename}' is compressed by a method that packages do not use.")
    by_name = {entry.filename: entry for entry in found}
    if len(by_name) != len(found):
        raise reject("It contains a file twice.")
    if missing := sorted(expected - by_name.keys()):
        raise reject(f"It lacks {', '.join(missing)}.")
    if sum(entry.compress_size for entry in found) > package_bytes:
        raise reject("Its files are larger than the package.")
    if sum(entry.file_size for entry in found) > MAX_CONTENT:
        raise TooLarge(f"The package unpacks to more than {MAX_CONTENT} bytes.")
    return by_name


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content, whose size must be the stated one: the sum of those is limited."""
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise reject(f"The size of '{entry.filename}' differs from the size that the zip file states.")
    return content


def _count_values(files: Mapping[str, bytes]) -> int:
    """Return an upper limit of the JSON values, without parsing: a small zip may unpack to millions of them.

    Each value but the first follows a bracket or a comma, and takes at most two strings (key and value) itself.
    Counting stops when there are too many.
    """
    tokens = (token.lastindex for content in files.values() for token in _TOKEN.finditer(content))
    counts = Counter(islice(tokens, 3 * MAX_VALUES + 1))
    return max(counts[None], (counts[1] + 1) // 2)


def _parse_json(name: str, content: bytes) -> Any:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise reject(f"'{name}' is not JSON.", name) from error
    if exceeds_depth(MAX_DEPTH, value):
        raise reject(f"'{name}' is nested deeper than {MAX_DEPTH} levels.", name)
    return value


def _check_manifest(content: bytes, declaration: bytes) -> None:
    try:
        manifest = Manifest.model_validate(_parse_json(MANIFEST, content))
    except ValidationError as error:
        raise reject(f"Its manifest does not describe a {FORMAT}.", MANIFEST) from error
    if manifest.format_version > VERSION:
        sentence = f"Its format version is {manifest.format_version}, and this Spindle reads up to {VERSION}"
        raise reject(f"{sentence}: update it first.", MANIFEST, "unsupported-version")
    if manifest.sha256 != hashlib.sha256(declaration).hexdigest():
        raise reject(f"The checksum of its manifest is wrong for {DECLARATION}.", MANIFEST)
