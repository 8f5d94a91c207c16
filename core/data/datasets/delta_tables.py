"""Delta tables without Spark: their small files become large ones, and files that nothing needs are found."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from core.data.datasets.version_files import list_version_files
from core.errors import Unavailable
from core.infra.storage.protocol import Storage
from pipelines.tables.delta import keeps_paths, open_delta_table, sign_delta_commit

if TYPE_CHECKING:
    from deltalake import DeltaTable

TARGET_BYTES = 128 * 1024**2


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """The snapshot that has the same rows in fewer files, and how many files were merged into how many."""

    snapshot: str
    merged: int
    written: int


def merge_delta_files(storage: Storage, location: str, snapshot: str, author: str) -> MergedFiles | None:
    """Merge the small files of the newest snapshot, which must be this one, and return the next snapshot.

    The files keep their order, and so do the rows. None when there is nothing to merge. A commit of another writer in
    the meantime leaves the merged files as one more commit, which the next writer takes back or builds on.
    """
    from deltalake.exceptions import CommitFailedError

    with _explain_failures():
        table = _open_table(storage, location)
        if str(table.version()) != snapshot or not keeps_paths(table):
            return None
        signed, log = sign_delta_commit(author)
        try:
            metrics = table.optimize.compact(
                target_size=TARGET_BYTES,
                max_concurrent_tasks=1,
                commit_properties=signed,
                post_commithook_properties=log,
            )
        except CommitFailedError:  # another writer has changed the same files
            return None
        if table.version() != int(snapshot) + 1:
            return None
        removed, added = int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"])
        return MergedFiles(str(table.version()), removed, added)


def find_unused_delta_files(
    storage: Storage, organization_id: str, location: str, snapshots: Iterable[str], days: int
) -> dict[str, int]:
    """Return the keys and sizes of files that neither the snapshots nor the table's newest state have.

    The files are found by a vacuum that deletes nothing: one that does would add commits to the table's log.
    """
    with _explain_failures():
        table = _open_table(storage, location)
        kept = [*map(int, snapshots), table.version()]
        found = table.vacuum(24 * days, dry_run=True, enforce_retention_duration=False, keep_versions=kept)
    needed = {
        key
        for snapshot in {*snapshots, str(table.version())}
        for key in list_version_files(storage, organization_id, "delta", [location], snapshot)
    }
    stored = {file.key: file.size_bytes for file in storage.list(location) if file.key.endswith(".parquet")}
    unused = {f"{location}/{path}" for each in found for path in (each, unquote(each))}
    return {key: size for key, size in stored.items() if key in unused and key not in needed and "/_" not in key}


def _open_table(storage: Storage, location: str) -> DeltaTable:
    return open_delta_table(storage.url_for(location, "sql"), storage.export_access())


@contextmanager
def _explain_failures() -> Generator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, ValueError) as error:
        raise Unavailable("The log of this Delta table is missing or damaged.", code="missing-files") from error
