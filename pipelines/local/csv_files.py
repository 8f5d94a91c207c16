"""Plain CSV files as Spark reads them: text columns, and quotes around whole values only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from pipelines.columns.types import parse_type
from pipelines.engine.csv_records import BLANK, OpenQuote, count_values, describe_fault, describe_load
from pipelines.errors import NeedsSpark, RunError
from pipelines.language.columns import ENGINE_COLUMNS, INTERNAL_COLUMNS, Columns
from pipelines.language.engines import LOADED_BYTES

_TRIAL_BYTES = 1_000_000
_MAX_COLUMNS = 20_000  # Spark's own limit is a little higher
_SUFFIXES = ("", ".csv", ".tsv", ".txt")  # by others Spark knows compressed files
_SPECIAL = re.compile("[\0\ufeff]")  # comments, and a byte order mark
_LINE_END = re.compile("\r\n|\r|\n")
RESERVED = {name.casefold() for name in (*ENGINE_COLUMNS, *INTERNAL_COLUMNS)}


def read_csv(path: str, separator: str, header: bool, is_trial: bool = False) -> tuple[pa.Table, Columns]:
    """Return the rows of a file with their position in `_ordinal`; raise NeedsSpark for texts that only Spark reads.

    A trial reads the beginning of a large file.
    """
    text = _read_text(Path(path), _TRIAL_BYTES if is_trial else None)
    numbered = [(number, line) for number, line in enumerate(_LINE_END.split(text), start=1) if line.strip(BLANK)]
    _check_lines(numbered, separator, path)
    lines = [line for _, line in numbered]
    split = _build_splitter(separator, path)
    rows = [split(line) if '"' in line else line.split(separator) for line in lines]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise NeedsSpark(f"only Spark reads '{path}': its rows are not equally long")
    names = _check_header(rows.pop(0), path) if header else [f"_c{number}" for number in range(len(rows[0]))]
    cells: Sequence[Sequence[str]] = [*zip(*rows, strict=True)] or [()] * len(names)
    arrays = [pa.array([cell or None for cell in column], pa.string()) for column in cells]
    ordinals = pa.array([[number] for number in range(len(rows))], parse_type("array<bigint>"))
    columns = Columns(tuple((name, "string") for name in names))
    return pa.table([*arrays, ordinals], names=[*names, "_ordinal"]), columns


def _check_lines(lines: Sequence[tuple[int, str]], separator: str, path: str) -> None:
    """Raise RunError for a row with more values than the first one, or with a quote that is not closed."""
    most = 0
    for number, line in lines:
        if '"' not in line and 0 < line.count(separator) + 1 <= most:
            continue
        with suppress(OpenQuote):
            most = most or count_values(line, separator, is_strict=False)
        if fault := describe_fault(line, separator, most, is_strict=False):
            raise RunError(describe_load(path, number, fault))


def _build_splitter(separator: str, path: str) -> Callable[[str], list[str]]:
    """Return a function that splits a line with quotes around whole values."""
    mark = re.escape(separator)
    value = f'(?:"([^"]+)"|([^"{mark}]*))'
    line_pattern, value_pattern = re.compile(f"{value}(?:{mark}{value})*"), re.compile(f"(?:^|{mark}){value}")

    def split(line: str) -> list[str]:
        if not line_pattern.fullmatch(line):
            raise NeedsSpark(f"only Spark reads '{path}': it has quotes that are not around a whole value")
        return [quoted or plain for quoted, plain in value_pattern.findall(line)]

    return split


def _read_text(path: Path, first_bytes: int | None) -> str:
    """Return the text of a file, or its whole lines within the first bytes."""
    is_plain = path.is_file() and path.suffix.lower() in _SUFFIXES
    if not is_plain or (first_bytes is None and path.stat().st_size > LOADED_BYTES):
        raise NeedsSpark(f"only Spark reads '{path}': it is no plain file of at most {LOADED_BYTES:,} bytes")
    with path.open("rb") as file:
        content = file.read(first_bytes)
    if len(content) == first_bytes:
        content = content[: content.rfind(b"\n") + 1]
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise NeedsSpark(f"only Spark reads '{path}': it is not UTF-8") from None
    if found := _SPECIAL.search(text):
        raise NeedsSpark(f"only Spark reads '{path}': it contains {found[0]!a}")
    return text


def _check_header(names: list[str], path: str) -> list[str]:
    folded = {name.casefold() for name in names}
    plain = all(name == name.strip(BLANK) and name for name in names)
    if not plain or len(folded) != len(names) or folded & RESERVED or len(names) > _MAX_COLUMNS:
        raise NeedsSpark(f"only Spark reads '{path}': its header has empty, repeated or reserved names")
    return names
