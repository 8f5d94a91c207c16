"""What a run brings besides its plan: where files may be read, how pages are fetched, how many rows are wanted."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import RunError
from pipelines.fetch import FetchOptions
from pipelines.page_cache.options import CacheOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PATTERN = re.compile(r"[*?\[{]")
_HIDDEN = re.compile(r"\.")
_SKIPPED = re.compile(r"\.|_(?!metadata|common_metadata)[^=]*\Z")  # by Spark: shouldFilterOutPathName of HadoopFSUtils
_MOST_ENTRIES = 1_000_000  # of a folder that is walked: a few seconds


@dataclass(frozen=True, slots=True)
class Files:
    """Physical files behind a path that a pipeline names; `format` None when the pipeline says it."""

    paths: tuple[str, ...]
    format: str | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """`inputs` are the service's own datasets by the path that the pipeline names them with.

    `local_folders` None lets every local path be read: a person's own machine, a notebook. `stored` are the rows that
    the run remembers by label, `saved` the files that it has written by the path that the pipeline names them with.
    `saves_folder` is where rows are written that go to the project's storage; without it all paths are local ones.
    `bind` is the address of this machine that tasks reach the driver at.
    """

    fetch: FetchOptions = field(default_factory=FetchOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)
    inputs: Mapping[str, Files] = field(default_factory=dict[str, Files])
    local_folders: tuple[str, ...] | None = None
    limit: int | None = None
    step: str = ""
    shown: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    stored: dict[str, DataFrame] = field(default_factory=dict[str, "DataFrame"])
    saves_folder: str | None = None
    saved: dict[str, Files] = field(default_factory=dict[str, "Files"])
    bind: str = "127.0.0.1"

    def files(self, path: str) -> Files:
        """The files behind `path`; raises RunError where there are none, or none that may be read."""
        if path in self.saved:
            return self.saved[path]
        if path in self.inputs:
            return self.inputs[path]
        scheme, separator, rest = path.partition("://")
        if separator and scheme != "file":
            raise RunError(f"'{path}' cannot be read: it is neither a dataset of this project nor a local file")
        with _refusing(path, "read"):
            found = tuple(self._allowed(Path(rest if separator else path)))
        if not found:
            raise RunError(f"there is no file at '{path}'")
        return Files(tuple(_literal(file) for file in found))

    def _allowed(self, path: Path) -> Iterator[str]:
        for name in sorted(self._named(path), key=str):
            # links are followed first: a link in an allowed folder must not lead out of it
            resolved = _real(name)
            if not self._is_open(resolved):
                raise _closed(path)
            if resolved.exists():
                self._check_links(resolved)
                yield str(resolved)

    def _named(self, path: Path) -> Iterable[Path]:
        """The path itself or what its pattern matches, for which open folders alone are looked into."""
        start, whole = Path(*takewhile(lambda part: not _PATTERN.search(part), path.parts)), _real(path)
        if start == path or (self._is_open(whole) and whole.exists()):
            return [path]
        patterns = path.relative_to(start).parts
        if not self._is_open(_real(start)) or ".." in patterns:
            raise _closed(path)
        found = [start]
        for pattern in patterns:
            folders = [each for each in found if self._is_open(_real(each))]
            found = list(dict.fromkeys(match for folder in folders for match in self._matches(folder, pattern)))
        return found

    def _matches(self, folder: Path, pattern: str) -> Iterable[Path]:
        if pattern != "**":
            return [folder / name for name in glob.glob(pattern, root_dir=folder)]
        return [_real(folder), *(Path(entry.path) for entry in self._beneath(folder, _HIDDEN))]

    def _check_links(self, path: Path) -> None:
        """Raises RunError where a link in a folder leads Spark out of the open ones."""
        if self.local_folders is None or not path.is_dir():
            return
        for entry in self._beneath(path, _SKIPPED):
            # Spark skips a link that leads nowhere; nothing guards the time from here to its reading
            if entry.is_symlink() and not self._is_open(_real(entry.path)) and os.path.exists(entry.path):
                raise RunError(f"'{entry.path}' cannot be read: it leads out of the folders that this service may read")

    def _beneath(self, top: Path, skipped: re.Pattern[str]) -> Iterator[os.DirEntry[str]]:
        """What lies in a folder and in those within it, and where links to open ones lead, but for `skipped` names.

        The paths are real ones, with a link at most at their end.
        """
        folders, seen, number = [str(top)], set[str](), 0
        while folders:
            folder = os.path.realpath(folders.pop())
            if folder in seen:
                continue
            seen.add(folder)
            try:
                listed = os.scandir(folder)
            except PermissionError:  # to Spark as well
                continue
            with listed as entries:
                for entry in entries:
                    number += 1
                    if number > _MOST_ENTRIES:
                        raise RunError(f"'{top}' cannot be read: it holds more than {_MOST_ENTRIES:,} files")
                    if skipped.match(entry.name):
                        continue
                    yield entry
                    with suppress(OSError):  # a link to itself, say
                        if (not entry.is_symlink() or self._is_open(_real(entry.path))) and entry.is_dir():
                            folders.append(entry.path)

    def _is_open(self, path: Path) -> bool:
        folders = self.local_folders
        return folders is None or any(path.is_relative_to(_real(each)) for each in folders)

    def local_target(self, path: str) -> Path | None:
        """The local place that rows are saved at; None for one in the project's storage. Raises RunError."""
        scheme, separator, rest = path.partition("://")
        is_local = scheme == "file" if separator else path.startswith("/") or self.saves_folder is None
        if not is_local and (self.saves_folder is None or (separator and scheme != "spindle")):
            raise RunError(f"'{path}' cannot be written: it is no local path")
        if not is_local:
            return None
        with _refusing(path, "written"):
            target = _real(rest if separator else path)
            if not self._is_open(target):
                raise RunError(f"'{path}' cannot be written: it is in none of the folders that this service may use")
            if not target.parent.is_dir():
                raise RunError(f"'{path}' cannot be written: there is no folder '{target.parent}'")
        return target


@contextmanager
def _refusing(path: str, done: str) -> Generator[None]:
    """Says as a RunError what the system says of a path that it does not take."""
    try:
        yield
    except OSError as error:
        raise RunError(f"'{path}' cannot be {done}: {error.strerror}") from None
    except ValueError:
        raise RunError(f"{path!a} cannot be {done}: no file can be called so") from None


def _closed(path: Path) -> RunError:
    return RunError(f"'{path}' cannot be read: it is in none of the folders that this service may read")


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _literal(path: str) -> str:
    """The path as Hadoop reads it, which takes some characters for patterns."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", path)
