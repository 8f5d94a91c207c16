"""Keeps a folder of pages small and quick: old files go, small ones are put together, and the index takes in the rest.

A file that somebody writes to is locked, and left alone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines.page_cache import groups
from pipelines.page_cache.groups import Entry, GroupReader, GroupWriter, Pending, Place
from pipelines.page_cache.index import Index
from pipelines.page_cache.store import names

_SMALL = 8 * 1024 * 1024
_MANY = 16  # files that readers look through without an index


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    size: int
    changed: float


def tidy(folder: Path, keep_seconds: float, max_bytes: int) -> None:
    """Tidies the folder, if nobody else does: a page is gone after `keep_seconds`, the oldest before that where all
    take more than `max_bytes`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder) as alone:
        if not alone:
            return
        files = _expired(_finished(folder), keep_seconds, max_bytes)
        present = {each.path.name for each in files}
        saved = Index.load(folder)
        known = set(saved.files)
        if len(present - known) > _MANY or known - present:
            new = Index.of(folder, (each.path.name for each in files if each.path.name not in known))
            _rewritten(folder, files, saved.joined(new, present)).save()


def _rewritten(folder: Path, files: list[_File], index: Index) -> Index:
    """The index of the folder once its small files are put together."""
    small = [each for each in files if each.size < _SMALL]
    if len(small) < 2:
        return index
    made = _merged(folder, small, index)
    gone = {each.path.name for each in small}
    index = index.joined(Index.of(folder, made), {*index.files, *made} - gone)
    for each in small:
        each.path.unlink()
    return index


@contextmanager
def _alone(folder: Path) -> Generator[bool]:
    with (folder / "lock").open("w") as lock:
        yield _locked(lock.fileno())


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _finished(folder: Path) -> Iterator[_File]:
    """The files that nobody writes to, oldest first. One without a byte has a writer that is about to lock it."""
    for name in names(folder):
        with (folder / name).open("rb") as file:
            stat = os.fstat(file.fileno())
            if stat.st_size and _locked(file.fileno()):
                yield _File(folder / name, stat.st_size, stat.st_mtime)


def _expired(files: Iterator[_File], keep_seconds: float, max_bytes: int) -> list[_File]:
    """Removes what is too old or too much, or was written in another format; returns what stays, oldest first."""
    kept: list[_File] = []
    left, oldest = max_bytes, time.time() - keep_seconds
    for each in reversed(list(files)):
        left -= each.size
        if left < 0 or each.changed < oldest or not groups.of_this_format(each.path):
            each.path.unlink()
        else:
            kept.append(each)
    return kept[::-1]


def _merged(folder: Path, files: list[_File], index: Index) -> list[str]:
    """Writes the pages of small files together, without those that were replaced; the names of the new files."""
    writer, pending = GroupWriter(folder), Pending()
    made = dict[str, None]()
    for entry in _entries(files, index):
        if not pending.fits(entry):
            made[writer.write(pending.take()).file] = None
        pending.add(entry)
        if pending.due():
            made[writer.write(pending.take()).file] = None
    if pending.entries:
        made[writer.write(pending.take()).file] = None
    writer.close()
    changed = max(each.changed for each in files)
    for path in made:
        os.utime(path, (changed, changed))
    return [Path(path).name for path in made]


def _entries(files: list[_File], index: Index) -> Iterator[Entry]:
    with closing(GroupReader()) as reader:
        for each in files:
            for offset, keys in groups.keys(str(each.path)):
                place = Place(str(each.path), offset)
                newest = [key for key in keys if index.holds(place, key)]
                group = reader.read(place) if newest else None
                yield from (entry for key in newest if group and (entry := group.get(key)))
