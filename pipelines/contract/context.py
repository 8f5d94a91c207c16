"""Context of a run: its inputs, the files that it may read and write, and its options for pages."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pipelines.contract.request import (
    REJECTED_FOLDER,
    CheckpointFolders,
    Figures,
    Files,
    KnownPagesPlace,
    Target,
    make_table_key,
)
from pipelines.coordination.messages import Endpoint
from pipelines.errors import RunError
from pipelines.fetch import CrawlOptions
from pipelines.fetch.files import FileFolder
from pipelines.filesystem import (
    TABLE_FILES,
    find_access,
    find_table_format,
    has_file,
    list_data_files,
    load_storage_access,
    split_address,
)
from pipelines.http_client.guard import Guard, GuardRefused
from pipelines.language.formats import TABLE_FORMATS
from pipelines.models.budget import Allowance
from pipelines.models.options import ModelOptions
from pipelines.page_cache.options import CacheOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.fetch.fetcher import PageCache

_PATTERN = re.compile(r"[*?\[{]")
_HIDDEN = re.compile(r"\.")
_SKIPPED = re.compile(r"\.|_(?!metadata|common_metadata)[^=]*\Z")  # as shouldFilterOutPathName of HadoopFSUtils
_MOST_ENTRIES = 1_000_000  # in a walk through folders, which takes a few seconds


@dataclass(frozen=True, slots=True)
class RunContext:
    """Context of a run.

    `inputs` are the datasets of the service by their path in the pipeline or the key of their name, `targets` those
    that the run writes, by the path of the save stage or OUTPUT; `author` is the execution that new versions of tables
    name. `local_folders` restricts the local files that may be read and written; None allows all of them, as on a
    personal machine. With `saves_folder`, rows for the project's storage are written there; without it, all paths are
    local. Without `checkpoints`, cached rows stay in memory. `bind` is the address of this machine at which tasks reach
    the driver, and `scratch` a folder in a bucket for what they share; None where all run on this machine. With
    `most_links`, in a trial, a source may stop at as many addresses, and a file's beginning is enough. `known` is the
    place of the job's known pages in an incremental run; without it all pages are new. `accepted_at` is when the
    execution was accepted, or the run began. `past` are the figures of the job's published executions, the
    newest first; None without a service. `selectors` is the folder of the organization's proven selectors; without it
    they are forgotten after the run. With `has_own_selectors` it is on the machine of the user. `files` is the folder
    of the run's own files from the web, and `kept` that of the files which executions of the organization share; None
    without a service. `model` is the one of a pipeline that names none, and `allowance` the most that the organization
    may still spend on models today.

    The run itself fills `stored` (rows by label), `saved` (written files by their path in the pipeline), `shown`
    (previews by step key) and `prepared` (by step key, what stages have read before the first page), and sets
    `endpoint`, which is its coordination server, and `downloads`, a folder for files from the web; `step` is the key of
    the current step. A trial sets `pages`, those that are kept in memory.
    """

    fetch: CrawlOptions = field(default_factory=CrawlOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)
    inputs: Mapping[str, Files] = field(default_factory=dict[str, Files])
    targets: Mapping[str, Target] = field(default_factory=dict[str, Target])
    author: str = ""
    local_folders: tuple[str, ...] | None = None
    limit: int | None = None
    most_links: int | None = None
    step: str = ""
    shown: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    stored: dict[str, DataFrame] = field(default_factory=dict[str, "DataFrame"])
    prepared: dict[str, Any] = field(default_factory=dict[str, Any])
    saves_folder: str | None = None
    files: FileFolder = field(default_factory=lambda: FileFolder(os.path.abspath("spindle_files"), "spindle_files"))
    kept: FileFolder | None = None
    saved: dict[str, Files] = field(default_factory=dict[str, "Files"])
    bind: str = "127.0.0.1"
    scratch: str | None = None
    known: KnownPagesPlace | None = None
    accepted_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    past: tuple[Figures, ...] | None = None
    endpoint: Endpoint | None = None
    downloads: str | None = None
    checkpoints: CheckpointFolders | None = None
    selectors: str | None = None
    has_own_selectors: bool = False
    model: ModelOptions | None = None
    allowance: Allowance | None = None
    locked_selectors: Path | None = None
    pages: PageCache | None = None

    @property
    def shared_files(self) -> FileFolder:
        """The folder for files that later executions use too; without a service, that of the run's own files."""
        return self.kept or self.files

    @property
    def rejected_folder(self) -> str | None:
        """The folder for the rows that checks set aside; None without a service."""
        return None if self.saves_folder is None else f"{self.saves_folder}/{REJECTED_FOLDER}"

    def find_files(self, path: str, escaped: bool = True) -> Files:
        """Return the files of a path in the pipeline; raises RunError if there are none that may be read.

        Local paths are `escaped` for readers that take patterns.
        """
        if path in self.saved:
            return self.saved[path]
        if path in self.inputs:
            return self.inputs[path]
        if address := self.resolve_address(path):
            return Files((address,))
        scheme, separator, rest = path.partition("://")
        if separator and scheme != "file":
            raise RunError(f"'{path}' cannot be read: it is neither a dataset of this project nor a local file")
        with _convert_errors(path, "read"):
            found = tuple(self._list_allowed(Path(rest if separator else path)))
        if not found:
            raise RunError(f"there is no file at '{path}'")
        return Files(tuple(escape_pattern(file) for file in found) if escaped else found)

    def find_table(self, name: str) -> Files:
        """Return the files of a dataset that a stage reads by name, which in a local run is the path of files.

        Raises RunError if there are none.
        """
        if found := self.inputs.get(make_table_key(name)):
            return found
        if self.local_folders is not None:
            raise RunError(f"there is no dataset '{name}'")
        format_ = find_table_format(name)
        if format_ is None:
            raise RunError(
                f"'{name}' is no file or folder of a known format ({', '.join(sorted(TABLE_FILES))}, Delta, Iceberg): "
                "spindle run reads tables from files, and a server's executions read its datasets"
            )
        return replace(self.find_files(name, escaped=format_ not in TABLE_FORMATS), format=format_)

    def resolve_address(self, path: str) -> str | None:
        """Return the s3:// address of a path in a bucket of the user, None for another path.

        Raises RunError without a credential, for the service's own bucket, and for a server that the guard refuses.
        """
        parts = split_address(path)
        if parts is None:
            return None
        bucket, key = parts
        storage = load_storage_access()
        if not bucket or (storage is not None and storage.bucket == bucket):
            raise RunError(f"'{path}' is in the service's own storage: name datasets as spindle://<project>/<name>")
        endpoint = find_access(bucket).endpoint
        if endpoint is not None:
            self._check_server(path, endpoint)
        return f"s3://{bucket}/{key}"

    def _check_server(self, path: str, endpoint: str) -> None:
        server = urlsplit(endpoint)
        try:
            host, port = server.hostname or "", server.port or (443 if server.scheme == "https" else 80)
        except ValueError:
            raise RunError(f"'{path}' cannot be reached: the endpoint of the credential is no host") from None
        storage = load_storage_access()
        # the server of the service's bucket may have buckets of users too, which want their own keys
        shared = storage is not None and storage.endpoint == endpoint
        own = () if shared else self.fetch.own_endpoints
        self._resolve_host(host, port, f"'{path}'", Guard(self.fetch.allow_networks, own))

    def resolve_host(self, host: str, port: int, system: str) -> Sequence[str]:
        """Return the numeric addresses of a host, all of which have passed the guard; raise RunError."""
        return self._resolve_host(host, port, system, Guard(self.fetch.allow_networks, self.fetch.own_endpoints))

    def _resolve_host(self, host: str, port: int, system: str, guard: Guard) -> Sequence[str]:
        name = host.strip("[]")
        try:
            return guard.resolve(name, port)
        except GuardRefused as refused:
            raise RunError(f"{system} cannot be reached: {refused.describe_for(name)}") from None
        except (OSError, ValueError):
            raise RunError(f"{system} cannot be reached: there is no host '{name}'") from None

    def _list_allowed(self, path: Path) -> Iterator[str]:
        for name in sorted(self._expand_pattern(path), key=str):
            # links are resolved first: a link in an allowed folder must not lead out of it
            resolved = _resolve_links(name)
            if not self._is_allowed(resolved):
                raise _make_refusal(path)
            if resolved.exists():
                self._check_links(resolved)
                yield str(resolved)

    def _expand_pattern(self, path: Path) -> Iterable[Path]:
        """Return the path itself, or the matches of its pattern; only allowed folders are listed."""
        start, whole = Path(*takewhile(lambda part: not _PATTERN.search(part), path.parts)), _resolve_links(path)
        if start == path or (self._is_allowed(whole) and whole.exists()):
            return [path]
        patterns = path.relative_to(start).parts
        if not self._is_allowed(_resolve_links(start)) or ".." in patterns:
            raise _make_refusal(path)
        found = [start]
        for pattern in patterns:
            folders = [each for each in found if self._is_allowed(_resolve_links(each))]
            found = list(dict.fromkeys(match for folder in folders for match in self._match_names(folder, pattern)))
        return found

    def _match_names(self, folder: Path, pattern: str) -> Iterable[Path]:
        if pattern != "**":
            return [folder / name for name in glob.glob(pattern, root_dir=folder)]
        return [_resolve_links(folder), *(Path(entry.path) for entry in self._walk(folder, _HIDDEN))]

    def _check_links(self, path: Path) -> None:
        """Raise RunError if a link in a folder leads out of the allowed folders, since Spark would follow it."""
        if self.local_folders is None or not path.is_dir():
            return
        for entry in self._walk(path, _SKIPPED):
            # Spark skips a broken link; a link that changes after this check is not detected
            if entry.is_symlink() and not self._is_allowed(_resolve_links(entry.path)) and os.path.exists(entry.path):
                raise RunError(f"'{entry.path}' cannot be read: it leads out of the folders that this service may read")

    def _walk(self, top: Path, skipped: re.Pattern[str]) -> Iterator[os.DirEntry[str]]:
        """Iterate over the entries below a folder, except `skipped` names, following links to allowed folders.

        Only the last part of a path may be a link.
        """
        folders, seen, number = [str(top)], set[str](), 0
        while folders:
            folder = os.path.realpath(folders.pop())
            if folder in seen:
                continue
            seen.add(folder)
            try:
                listed = os.scandir(folder)
            except PermissionError:  # which Spark cannot list either
                continue
            with listed as entries:
                for entry in entries:
                    number += 1
                    if number > _MOST_ENTRIES:
                        raise RunError(f"'{top}' cannot be read: it contains more than {_MOST_ENTRIES:,} files")
                    if skipped.match(entry.name):
                        continue
                    yield entry
                    with suppress(OSError):  # like a link to itself
                        if (not entry.is_symlink() or self._is_allowed(_resolve_links(entry.path))) and entry.is_dir():
                            folders.append(entry.path)

    def _is_allowed(self, path: Path) -> bool:
        folders = self.local_folders
        return folders is None or any(path.is_relative_to(_resolve_links(each)) for each in folders)

    def resolve_local_target(self, path: str) -> Path | None:
        """Return the local path for saved rows, or None for the project's storage; raises RunError."""
        scheme, separator, rest = path.partition("://")
        is_local = scheme == "file" if separator else path.startswith("/") or self.saves_folder is None
        if not is_local and (self.saves_folder is None or (separator and scheme != "spindle")):
            raise RunError(f"'{path}' cannot be written: it is not a local path")
        if not is_local:
            return None
        with _convert_errors(path, "written"):
            target = _resolve_links(rest if separator else path)
            if not self._is_allowed(target):
                raise RunError(f"'{path}' cannot be written: it is in none of the folders that this service may use")
            if not target.parent.is_dir():
                raise RunError(f"'{path}' cannot be written: there is no folder '{target.parent}'")
        return target

    def has_rows(self, path: str) -> bool:
        """Return whether there are rows already where a stage saves to."""
        if address := self.resolve_address(path):
            return has_file(address) or bool(list_data_files(address, recursive=True))
        local = self.resolve_local_target(path)
        return local.exists() if local else self.targets.get(path, Target()).exists


@contextmanager
def _convert_errors(path: str, done: str) -> Generator[None]:
    """Convert errors of the operating system to RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"'{path}' cannot be {done}: {error.strerror}") from None
    except ValueError:
        raise RunError(f"{path!a} cannot be {done}: a file cannot have this name") from None


def _make_refusal(path: Path) -> RunError:
    return RunError(f"'{path}' cannot be read: it is in none of the folders that this service may read")


def _resolve_links(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def escape_pattern(path: str) -> str:
    """Escape the characters that Hadoop treats as a pattern."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", path)


def unescape_pattern(path: str) -> str:
    """Return the path that `escape_pattern` has escaped."""
    return re.sub(r"\\(.)", r"\1", path)
