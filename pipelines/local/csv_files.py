"""Plain CSV files as Spark reads them: text columns, without quotes or escapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from pipelines.errors import NeedsSpark
from pipelines.language.columns import ENGINE_COLUMNS, INTERNAL_COLUMNS, Columns
from pipelines.passes.types import parse_type

MAX_BYTES = 50_000_000
_MAX_COLUMNS = 20_000  # Spark's own limit is a little higher
_SUFFIXES = ("", ".csv", ".tsv", ".txt")  # by others Spark knows compressed files
_SPECIAL = re.compile('["\\\\\0\ufeff]')  # quotes, escapes, comments, and a byte order mark
_LINE_END = re.compile("\r\n|\r|\n")
_RESERVED = {name.casefold() for name in (*ENGINE_COLUMNS, *INTERNAL_COLUMNS)}
_BLANK = "".join(map(chr, range(33)))  # characters of lines that Spark skips


def read_csv(path: str, separator: str, header: bool) -> tuple[pa.Table, Columns]:
    """Return the rows of a file with their position in `_ordinal`; raise NeedsSpark for what only Spark reads."""
    lines = [line for line in _LINE_END.split(_read_text(Path(path))) if line.strip(_BLANK)]
    rows = [line.split(separator) for line in lines]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise NeedsSpark(f"only Spark reads '{path}': its rows are not equally long")
    names = _check_header(rows.pop(0), path) if header else [f"_c{number}" for number in range(len(rows[0]))]
    cells: Sequence[Sequence[str]] = [*zip(*rows, strict=True)] or [()] * len(names)
    arrays = [pa.array([cell or None for cell in column], pa.string()) for column in cells]
    ordinals = pa.array([[number] for number in range(len(rows))], parse_type("array<bigint>"))
    columns = Columns(tuple((name, "string") for name in names))
    return pa.table([*arrays, ordinals], names=[*names, "_ordinal"]), columns


def _read_text(path: Path) -> str:
    if not path.is_file() or path.suffix.lower() not in _SUFFIXES or path.stat().st_size > MAX_BYTES:
        raise NeedsSpark(f"only Spark reads '{path}': it is no plain file of at most {MAX_BYTES:,} bytes")
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise NeedsSpark(f"only Spark reads '{path}': it is not UTF-8") from None
    if found := _SPECIAL.search(text):
        raise NeedsSpark(f"only Spark reads '{path}': it contains {found[0]!a}")
    return text


def _check_header(names: list[str], path: str) -> list[str]:
    folded = {name.casefold() for name in names}
    plain = all(name == name.strip(_BLANK) and name for name in names)
    if not plain or len(folded) != len(names) or folded & _RESERVED or len(names) > _MAX_COLUMNS:
        raise NeedsSpark(f"only Spark reads '{path}': its header has empty, repeated or reserved names")
    return names
