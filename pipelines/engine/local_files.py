"""Rows that a run writes to local paths: a folder, or one file where the path ends as files of the format do."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.errors import RunError
from pipelines.filesystem import list_data_files, lock_folder
from pipelines.language.formats import Mode

_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "json": (".json", ".jsonl"),
    "parquet": (".parquet",),
    "avro": (".avro",),
}
_TEXTS = ("csv", "json")  # formats whose files may be lengthened
_COPIED = 1024 * 1024


def names_file(path: str, format_: str, partition_by: Sequence[str]) -> bool:
    """Return whether rows for this path are written to one file instead of a folder."""
    return not partition_by and Path(path).suffix.casefold() in _SUFFIXES.get(format_, ())


def find_header(target: Path, format_: str, columns: Sequence[str]) -> list[str] | None:
    """Return the columns of a CSV file that rows are appended to; None where any columns fit.

    Raise RunError for a file of another format, and for columns that the file lacks.
    """
    if not target.is_file():
        return None
    if format_ not in _TEXTS:
        raise RunError(
            f"'{target}' is a file of {format_}, which cannot be lengthened: append to a path without "
            f"'{target.suffix}', which is a folder, or to a .csv or .jsonl file"
        )
    if format_ != "csv":
        return None
    with target.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file), None)
    if header is not None and (lacking := [name for name in columns if name not in header]):
        listed = ", ".join(f"'{name}'" for name in lacking)
        raise RunError(f"the file '{target}' has no column {listed}: leave it out of the rows, or write another file")
    return header


def move_rows(staged: Path, target: Path, mode: Mode, format_: str, one_file: bool) -> None:
    """Move the files of a folder to their place; raise RunError where rows cannot be appended.

    Concurrent runs move their files one after another, so that a run appends to the files of the one before.
    """
    with lock_folder(target.parent):
        _move_rows(staged, target, mode, format_, one_file)


def _move_rows(staged: Path, target: Path, mode: Mode, format_: str, one_file: bool) -> None:
    if one_file:
        _move_file(staged, target, mode, format_)
    elif mode is Mode.APPEND and target.is_dir():
        for file in sorted(path for path in staged.rglob("*") if path.is_file()):  # their names are unique
            place = target / file.relative_to(staged)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.rename(place)
    elif mode is Mode.APPEND and target.exists():
        raise RunError(f"'{target}' is a file; rows can be appended to a folder only")
    else:
        _replace(staged, target)


def _move_file(staged: Path, target: Path, mode: Mode, format_: str) -> None:
    (written,) = list_data_files(str(staged), recursive=True)
    if mode is Mode.APPEND and target.exists() and target.stat().st_size:
        _append_text(Path(written.path), target, format_ == "csv")
    elif target.is_dir():
        _replace(Path(written.path), target)
    else:
        Path(written.path).replace(target)


def _append_text(written: Path, target: Path, has_header: bool) -> None:
    """Append the lines of a file, without its header; restore the target when that fails."""
    size = target.stat().st_size
    with written.open("rb") as source, target.open("r+b") as file:
        if has_header:
            source.seek(_measure_header(written))
        file.seek(-1, os.SEEK_END)
        ended = file.read(1) == b"\n"
        try:
            file.write(b"" if ended else b"\n")
            shutil.copyfileobj(source, file, _COPIED)
            file.flush()
        except OSError:
            file.truncate(size)
            raise


def _measure_header(path: Path) -> int:
    """Return the bytes of a CSV file's first row, which may have several lines."""
    with path.open(newline="", encoding="utf-8") as file:
        lines: list[str] = []
        next(csv.reader(lines.append(line) or line for line in file), None)
    return len("".join(lines).encode())


def _replace(staged: Path, target: Path) -> None:
    earlier = target.with_name(f"{staged.name}.earlier")
    if target.exists():
        target.rename(earlier)
    staged.rename(target)
    if earlier.is_dir():
        shutil.rmtree(earlier)
    else:
        earlier.unlink(missing_ok=True)
