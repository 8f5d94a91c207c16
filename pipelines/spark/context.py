"""What a run brings besides its plan: where files may be read, how pages are fetched, how many rows are wanted."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame

from pipelines.errors import RunError
from pipelines.fetch import FetchOptions
from pipelines.fetch.cache import CacheOptions
from pipelines.model import Options, Robots

_PATTERN = re.compile(r"[*?\[{]")


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
    """

    fetch: FetchOptions = field(default_factory=FetchOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)
    inputs: Mapping[str, Files] = field(default_factory=dict[str, Files])
    local_folders: tuple[str, ...] | None = None
    limit: int | None = None
    stored: dict[str, DataFrame] = field(default_factory=dict[str, "DataFrame"])
    saves_folder: str | None = None
    saved: dict[str, Files] = field(default_factory=dict[str, "Files"])

    def files(self, path: str) -> Files:
        """The files behind `path`; raises RunError where there are none, or none that may be read."""
        if path in self.saved:
            return self.saved[path]
        if path in self.inputs:
            return self.inputs[path]
        scheme, separator, rest = path.partition("://")
        if separator and scheme != "file":
            raise RunError(f"'{path}' cannot be read: it is neither a dataset of this project nor a local file")
        local = Path(rest if separator else path)
        found = tuple(self._allowed(local))
        if not found:
            raise RunError(f"there is no file at '{path}'")
        return Files(tuple(_literal(file) for file in found))

    def _allowed(self, path: Path) -> Iterator[str]:
        names = [str(path)] if path.exists() or not _PATTERN.search(str(path)) else glob.glob(str(path), recursive=True)
        for name in sorted(names):
            # links are followed first: a link in an allowed folder must not lead out of it
            resolved = Path(name).resolve()
            if not self._is_open(resolved):
                raise RunError(f"'{path}' cannot be read: it is in none of the folders that this service may read")
            if resolved.exists():
                yield str(resolved)

    def _is_open(self, path: Path) -> bool:
        folders = self.local_folders
        return folders is None or any(path.is_relative_to(Path(each).resolve()) for each in folders)

    def local_target(self, path: str) -> Path | None:
        """The local place that rows are saved at; None for one in the project's storage. Raises RunError."""
        scheme, separator, rest = path.partition("://")
        is_local = scheme == "file" if separator else path.startswith("/") or self.saves_folder is None
        if not is_local and (self.saves_folder is None or (separator and scheme != "spindle")):
            raise RunError(f"'{path}' cannot be written: it is no local path")
        if not is_local:
            return None
        target = Path(rest if separator else path).resolve()
        if not self._is_open(target):
            raise RunError(f"'{path}' cannot be written: it is in none of the folders that this service may use")
        if not target.parent.is_dir():
            raise RunError(f"'{path}' cannot be written: there is no folder '{target.parent}'")
        return target


_DEFAULTS = FetchOptions()


def fetch_options(
    options: Options, allow_networks: tuple[str, ...], defaults: FetchOptions = _DEFAULTS
) -> FetchOptions:
    """How pages are fetched, as far as the pipeline says so; `defaults` otherwise."""
    per_host = options.concurrency or defaults.per_host
    return replace(
        defaults,
        user_agent=options.user_agent or defaults.user_agent,
        concurrency=max(per_host, defaults.concurrency),
        per_host=per_host,
        delay=options.delay or defaults.delay,
        robots=defaults.robots and options.robots is Robots.OBEY,
        total_timeout=options.timeout or defaults.total_timeout,
        allow_networks=allow_networks,
    )


def cache_options(options: Options, cache: CacheOptions) -> CacheOptions:
    """Which kept pages are trusted: `cache`, and how long as far as the pipeline says so."""
    return cache if options.cache is None else replace(cache, lifetime_seconds=options.cache)


def _literal(path: str) -> str:
    """The path as Hadoop reads it, which takes some characters for patterns."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", path)
