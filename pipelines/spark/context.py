"""What a run brings besides its plan: where files may be read, how pages are fetched, how many rows are wanted."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from pipelines.errors import RunError
from pipelines.fetch import FetchOptions
from pipelines.model import Options

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
    the run remembers by label.
    """

    fetch: FetchOptions = field(default_factory=FetchOptions)
    inputs: Mapping[str, Files] = field(default_factory=dict[str, Files])
    local_folders: tuple[str, ...] | None = None
    limit: int | None = None
    stored: dict[str, DataFrame] = field(default_factory=dict[str, "DataFrame"])

    def files(self, path: str) -> Files:
        """The files behind `path`; raises RunError where there are none, or none that may be read."""
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
            folders = self.local_folders
            if folders is not None and not any(resolved.is_relative_to(Path(each).resolve()) for each in folders):
                raise RunError(f"'{path}' cannot be read: it is in none of the folders that this service may read")
            if resolved.exists():
                yield str(resolved)


def fetch_options(options: Options, allow_networks: tuple[str, ...]) -> FetchOptions:
    """How pages are fetched, as far as the pipeline says so; the engine's defaults otherwise."""
    defaults = FetchOptions()
    per_host = options.concurrency or defaults.per_host
    return FetchOptions(
        user_agent=options.user_agent or defaults.user_agent,
        concurrency=max(per_host, defaults.concurrency),
        per_host=per_host,
        total_timeout=options.timeout or defaults.total_timeout,
        allow_networks=allow_networks,
    )


def _literal(path: str) -> str:
    """The path as Hadoop reads it, which takes some characters for patterns."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", path)
