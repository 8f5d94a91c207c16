"""The check of CSV files: Spark drops values beyond the columns, and goes on in a quote that is not closed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from pipelines.engine.csv_records import (
    BLANK,
    OpenQuote,
    count_filled,
    count_values,
    describe_load,
    describe_values,
    read_records,
)
from pipelines.errors import RunError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrameReader

_PART = "part binary"


class Part(Struct):
    """The lines of a part of a file: how many there are, and of each number of values the first one, from 0.

    A record with a quote that is not closed counts as 0 values, and empty ones at the end do not count.
    """

    path: str
    start: int
    columns: int = 0  # values of the first record
    lines: int = 0
    first: dict[int, tuple[int, int]] = field(default_factory=dict)


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Part)


def check_records(
    read: DataFrameReader, paths: Sequence[str], separator: str, columns: int | None, is_whole: bool
) -> None:
    """Raise RunError for the first row with more values than columns, or with a quote that is not closed.

    Without a number of columns it is that of a file's first row. Quoted values of `is_whole` files have line breaks.
    """
    lines = read.text(list(paths), wholetext=is_whole)
    parts = lines.select("value", "_metadata.file_path", "_metadata.file_block_start")
    found = [_decoder.decode(row[0]) for row in parts.mapInArrow(partial(_count, separator, is_whole), _PART).collect()]
    files: dict[str, list[Part]] = {}
    for part in sorted(found, key=lambda part: (part.path, part.start)):
        files.setdefault(part.path, []).append(part)
    for path, of_file in files.items():
        _check_file(path, of_file, separator, columns)


def _check_file(path: str, parts: Sequence[Part], separator: str, columns: int | None) -> None:
    before, faults = 0, list[tuple[int, int]]()
    for part in parts:
        columns = part.columns if columns is None else columns
        faults += [(before + line + 1, n) for count, (line, n) in part.first.items() if not n or count > columns]
        before += part.lines
    if faults:
        line, count = min(faults)
        raise RunError(describe_load(re.sub("^file:/+", "/", path), line, describe_values(count, columns or 0)))


def _count(separator: str, is_whole: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the parts of files in one partition, in a Python worker."""
    parts: dict[tuple[str, int], Part] = {}
    for batch in batches:
        for text, path, start in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            part = parts.setdefault((path, start), Part(path, start))
            if is_whole:
                for line, record in read_records(io.StringIO(text, newline=""), separator):
                    _add(part, line - 1, record, separator)
            else:
                _add(part, part.lines, text, separator)
                part.lines += 1
    import pyarrow as pa  # imports numpy, which the engine does without

    encoded = pa.array([_encoder.encode(part) for part in parts.values()], pa.binary())
    yield pa.record_batch([encoded], names=["part"])


def _add(part: Part, line: int, record: str, separator: str) -> None:
    if record.strip(BLANK):
        try:
            count = count_values(record, separator, is_strict=False)
        except OpenQuote:
            count = 0
        part.columns = part.columns or count
        part.first.setdefault(count and count_filled(record, separator, count), (line, count))
