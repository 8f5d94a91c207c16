"""CSV files of EANs: read in any dialect as a stream, checked by row, and written as Parquet with nothing but texts."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from spindle.rest import RestError

_NAMES = ("ean", "ean13", "ean8", "eancode", "gtin", "gtin13", "gtin14", "barcode", "upc")
_LENGTHS = (8, 12, 13, 14)
_SAMPLE_BYTES = 64 * 1024
_BATCH_ROWS = 50_000
_MOST_SHOWN = 100


@dataclass(slots=True)
class CheckedEans:
    """The outcome of a file: its columns, the number of rows with a valid EAN, and the first rows without one."""

    columns: list[str]
    rows: int = 0
    invalid: int = 0
    shown: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


def is_valid_ean(text: str) -> bool:
    """Return whether a text is an EAN or UPC with the right check digit."""
    if len(text) not in _LENGTHS or not (text.isascii() and text.isdigit()):
        return False
    weighted = sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(reversed(text)))
    return weighted % 10 == 0


def convert_eans(source: BinaryIO, target: IO[bytes]) -> CheckedEans:
    """Write the rows with a valid EAN, which is in the column `ean` then; raise RestError for a file without any."""
    reader, header = _open_reader(source)
    position = _find_column(header)
    names = ["ean" if at == position else name for at, name in enumerate(header)]
    found = CheckedEans(names)
    schema = pa.schema([(name, pa.string()) for name in names])
    with pq.ParquetWriter(target, schema) as writer:
        for batch in _iter_batches(reader, position, found):
            columns = [pa.array(values, pa.string()) for values in zip(*batch, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    if not found.rows:
        sentence = f"None of the {found.invalid:,} rows has an EAN of 8, 12, 13 or 14 digits with its check digit."
        raise RestError(400, sentence, "invalid-value", "file")
    return found


def _open_reader(source: BinaryIO) -> tuple[Iterator[list[str]], list[str]]:
    """Return the rows and the header; the delimiter is the one that the header has most often."""
    sample = source.read(_SAMPLE_BYTES)
    source.seek(0)
    encoding = "utf-16" if sample[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = io.TextIOWrapper(source, encoding, newline="")
    try:
        shown = sample.decode(encoding, errors="ignore")
        first = next(iter(shown.splitlines()), "")
        delimiter = max(",;\t|", key=first.count)
        reader = csv.reader(text, delimiter=delimiter)
        header = [name.strip() for name in next(reader, [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise _describe_unreadable(error) from None
    if len({name.casefold() for name in header}) < len(header) or not all(header):
        raise RestError(400, "The header of the file names a column twice, or not at all.", "invalid-header", "file")
    return reader, header


def _find_column(header: Sequence[str]) -> int:
    folded = [re.sub(r"[\W_]+", "", name).casefold() for name in header]
    found = next((folded.index(name) for name in _NAMES if name in folded), None)
    if found is None:
        listed = ", ".join(header[:50]) or "none"
        sentence = f"The file has no column of EANs, such as 'ean'; its columns are {listed}."
        raise RestError(400, sentence, "missing-field", "file")
    return found


def _iter_batches(reader: Iterator[list[str]], position: int, found: CheckedEans) -> Iterator[list[list[str | None]]]:
    """Yield the rows with a valid EAN, and count the others."""
    batch: list[list[str | None]] = []
    width = len(found.columns)
    try:
        for line, row in enumerate(reader, start=2):
            if not any(row):
                continue
            written = row[position].strip() if position < len(row) else ""
            ean = written.replace("-", "").replace(" ", "")
            if not is_valid_ean(ean):
                found.invalid += 1
                if len(found.shown) < _MOST_SHOWN:
                    found.shown.append({"line": line, "value": written[:100]})
                continue
            cells: list[str | None] = [*row[:width], *([None] * (width - len(row)))]
            cells[position] = ean
            batch.append(cells)
            found.rows += 1
            if len(batch) == _BATCH_ROWS:
                yield batch
                batch = []
    except (UnicodeDecodeError, csv.Error) as error:
        raise _describe_unreadable(error) from None
    if batch:
        yield batch


def _describe_unreadable(error: Exception) -> RestError:
    if isinstance(error, UnicodeDecodeError):
        return RestError(400, "The file is not text in UTF-8 or UTF-16.", "invalid-encoding", "file")
    return RestError(400, f"The file cannot be read as CSV: {error}.", "invalid-file", "file")
