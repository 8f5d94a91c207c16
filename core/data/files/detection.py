"""Detection of a file's format, compression, encoding, delimiter and header."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import duckdb

from core.data.files.messages import Format, RejectedFile
from pipelines.duckdb.lockdown import CONFIG

CHUNK = 2**20
SAMPLE = 2**18
MAX_RATIO = 200  # of decompressed to compressed bytes
RATIO_FREE_BYTES = 64 * 2**20  # below, a small repetitive file may have any ratio
MAX_COLUMNS = 2_000
PARQUET, GZIP, ZIP = b"PAR1", b"\x1f\x8b", b"PK\x03\x04"
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BLANK_LINES = re.compile(rb"(?:[ \t]*(?:\r\n|\r|\n))+")
_TYPED = re.compile(r"[+-]?(\d+([.,]\d+)?|\.\d+)([eE][+-]?\d+)?|\d{4}-\d{2}-\d{2}([T ].*)?|true|false", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a CSV file is read. Quotes are `"`, doubled inside of values."""

    delimiter: str
    header: bool
    names: tuple[str, ...]
    blank_lines: int = 0  # before the first record


def decompress(source: Path, target: Path, max_bytes: int) -> str | None:
    """Write the content of a gzip file or of a ZIP file with one member to the target; return the compression.

    None means that the file is not compressed, and there is no target. Raises RejectedFile for other archives and
    damaged ones, TooLargeFile beyond the limit of bytes or of the ratio.
    """
    with source.open("rb") as file:
        start = file.read(4)
    if not start.startswith((GZIP, ZIP)):
        return None
    kind = "gzip" if start.startswith(GZIP) else "zip"
    limit = min(max_bytes, max(RATIO_FREE_BYTES, source.stat().st_size * MAX_RATIO))
    try:
        with _open_compressed(source, kind) as content, target.open("xb") as file:
            written = 0
            while chunk := content.read(CHUNK):
                written += len(chunk)
                if written > limit:
                    raise RejectedFile("too-large", f"The file decompresses to more than {limit} bytes.")
                file.write(chunk)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise RejectedFile("truncated-upload", f"The {kind} file is damaged or ends too early.") from error
    return kind


@contextmanager
def _open_compressed(source: Path, kind: str) -> Generator[BinaryIO]:
    if kind == "gzip":
        with gzip.open(source) as content:
            yield cast(BinaryIO, content)
        return
    with zipfile.ZipFile(source) as archive:
        members = [each for each in archive.infolist() if not each.is_dir()]
        if any(each.filename == "[Content_Types].xml" for each in members):
            raise RejectedFile("unsupported-format", "Office documents cannot be read. Save the table as CSV first.")
        if len(members) != 1:
            sentence = f"A ZIP file has one file with rows; this one has {len(members)}."
            raise RejectedFile("unsupported-format", sentence)
        with archive.open(members[0]) as content:
            yield cast(BinaryIO, content)


def is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == PARQUET


def decode(source: Path, target: Path, encoding: str | None, max_bytes: int) -> str:
    """Write a text file as UTF-8 to the target unless it is that already; return its encoding.

    UTF-16 and UTF-32 are known by their mark, and UTF-16 by its NULs too. Raises RejectedFile for binary files and text
    in other encodings.
    """
    with source.open("rb") as file:
        start = file.read(SAMPLE)
    encoding = _check_encoding(encoding) if encoding else _guess_encoding(start)
    if encoding in ("utf-8", "ascii"):
        return "utf-8"
    decoder = codecs.getincrementaldecoder(encoding)()
    written, text = 0, ""
    with source.open("rb") as file, target.open("xb") as output:
        while chunk := file.read(CHUNK):
            text = _decode_chunk(decoder, chunk, encoding, last=False)
            if not written:
                text = text.removeprefix("\ufeff")
            written += output.write(text.encode("utf-8", "replace"))
            if written > max_bytes:
                raise RejectedFile("too-large", f"The file has more than {max_bytes} bytes in UTF-8.")
        output.write(_decode_chunk(decoder, b"", encoding, last=True).encode())
    return encoding


def _decode_chunk(decoder: codecs.IncrementalDecoder, chunk: bytes, encoding: str, *, last: bool) -> str:
    try:
        return decoder.decode(chunk, last)
    except UnicodeDecodeError as error:
        raise RejectedFile("invalid-encoding", f"The file is not text in {encoding}.") from error


def _check_encoding(name: str) -> str:
    try:
        info = codecs.lookup(name)
        "".encode(info.name)
        b"".decode(info.name)
    except (LookupError, ValueError) as error:
        raise RejectedFile("invalid-encoding", f"There is no text encoding '{name[:40]}'.") from error
    return info.name


def _guess_encoding(start: bytes) -> str:
    for mark, encoding in BOMS:
        if start.startswith(mark):
            return encoding
    if b"\0" not in start:
        return "utf-8"
    if len(start) % 2 == 0 or len(start) == SAMPLE:
        even, odd = start[0::2].count(0), start[1::2].count(0)
        half = len(start) / 2
        if odd > half * 0.6 and even < half * 0.1:
            return "utf-16-le"
        if even > half * 0.6 and odd < half * 0.1:
            return "utf-16-be"
    raise RejectedFile("unsupported-format", "The file is neither text (CSV, JSON lines) nor Parquet.")


def detect_text_format(path: Path, hint: str | None) -> Format:
    """Return csv or jsonl: the caller's choice, or else by the first character, `{` or `[` being JSON's."""
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    text = start.lstrip()
    if not text:
        raise RejectedFile("empty-file", "The file is empty.")
    if hint is not None:
        return "csv" if hint == "csv" else "jsonl"
    return "jsonl" if text[:1] in (b"{", b"[") else "csv"


def detect_csv(path: Path, delimiter: str | None, header: bool | None) -> CsvDialect:
    """Return the dialect of a CSV file; values from the caller are not detected.

    The first record is a header when none of its values looks like a number, a date or a truth value: DuckDB compares
    it with the other records, and renames equal columns. Raises RejectedFile for a header that is not usable.
    """
    delimiter = delimiter or _detect_delimiter(path)
    first = [value.strip() for value in _read_first_record(path, delimiter)]
    if not first:
        raise RejectedFile("empty-file", "The file has no rows.")
    if len(first) > MAX_COLUMNS:
        raise RejectedFile("invalid-header", f"The file has {len(first)} columns; {MAX_COLUMNS} is the limit.")
    if header is None:
        header = not any(_TYPED.fullmatch(value) for value in first)
    names = tuple((header and name) or f"_c{position}" for position, name in enumerate(first))
    check_names(names)
    with path.open("rb") as file:
        blank = _BLANK_LINES.match(file.read(SAMPLE))
    return CsvDialect(delimiter, header, names, len(_LINE_END.findall(blank[0])) if blank else 0)


def check_names(names: Sequence[str]) -> None:
    """Raise RejectedFile for names that differ in nothing but case, and for unusable ones."""
    seen: dict[str, str] = {}
    for name in names:
        if not 0 < len(name) <= 255 or any(character < " " for character in name) or "\ufffd" in name:
            raise RejectedFile("invalid-header", f"'{name[:60]}' cannot be the name of a column.")
        if name.casefold() in seen:
            sentence = f"Two columns are called '{name}'. Give each column a name of its own."
            raise RejectedFile("duplicate-column", sentence)
        seen[name.casefold()] = name


def _detect_delimiter(path: Path) -> str:
    """Return the delimiter that DuckDB finds; a comma for one column and for files that DuckDB cannot split."""
    options = "ignore_errors = true, all_varchar = true, quote = '\"', escape = '\"', header = false, skip = 0"
    sniff = f"SELECT Delimiter FROM sniff_csv(?, {options}) WHERE len(Columns) > 1"  # noqa: S608 - constants
    try:
        with duckdb.connect(":memory:", config=CONFIG) as connection:
            (delimiter,) = connection.execute(sniff, [str(path)]).fetchone() or (",",)
    except duckdb.Error:
        return ","  # the conversion reports the error with its line
    return delimiter


def _read_first_record(path: Path, delimiter: str) -> list[str]:
    """Return the first record that is not blank; an empty list without one."""
    csv.field_size_limit(SAMPLE)
    with path.open("rb") as file:
        sample = file.read(SAMPLE).decode("utf-8", "replace")
    try:
        records = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        return next((record for record in records if any(value.strip() for value in record) or len(record) > 1), [])
    except csv.Error:
        return []
