"""Delta tables through the library deltalake, which needs no Spark."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from pipelines.contract.report import TablePart
from pipelines.filesystem import S3Access, read_file
from pipelines.tables.protocol import (
    TARGET_BYTES,
    CommitConflict,
    MergedFiles,
    SparkOnly,
    TableFault,
    Values,
    find_table_access,
    make_log_fault,
    resolve_file,
    sum_parts,
)
from pipelines.tables.snapshots import LOG_FOLDERS

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties

_PLAIN_WRITER = 2  # later versions of the protocol have features that a table may use
# what a table may use of newer versions of the format and still be read file by file
_READABLE_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening"})
_UNOPENED = re.compile(r"[\\\[\]^|]|%[0-9A-Fa-f]{2}")
_UNQUOTED = "/!$&'()+,:;=@"  # and letters, digits and _.-~

_PLAIN_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})  # which deltalake writes as Spark does
MAX_COMMITS = 50  # the newest ones, among which a run looks for its own

_NO_LIMITS: Mapping[str, str] = {}
# deltalake works without giving other threads a turn: a driver has to report meanwhile, and to renew its lease
SHORT = {"timeout": "10s", "max_retries": "3", "retry_timeout": "10s"}


class StoredDeltaTable:
    """Implements StoredTable by the library deltalake."""

    def __init__(self, location: str, access: S3Access | None) -> None:
        self._location = location.rstrip("/")
        self._access = access

    def list_files(self, snapshot: str, partition: Values = ()) -> tuple[str, ...]:
        with _explain_failures():
            table = open_delta_table(self._location, self._access, int(snapshot))
            features = {*(table.protocol().reader_features or ())}
            files = _read_files(table)
            wanted = {f"partition.{name}": value for name, value in partition}
            paths = [file["path"] for file in files if wanted.items() <= file.items()]
        if unknown := features - _READABLE_FEATURES:
            raise TableFault(
                f"SQL does not read Delta tables with {', '.join(sorted(unknown))}; load_delta does.",
                "unsupported-table",
            )
        return tuple(resolve_file(self._location, unquote(path)) for path in paths)

    def measure_partitions(self, snapshot: str, columns: tuple[str, ...]) -> tuple[TablePart, ...]:
        with _explain_failures():
            files = _read_files(open_delta_table(self._location, self._access, int(snapshot)))
        return sum_parts(
            (tuple(file[f"partition.{name}"] for name in columns), file["num_records"], file["size_bytes"])
            for file in files
        )

    def merge_files(self, snapshot: str, author: str) -> MergedFiles | None:
        from deltalake.exceptions import CommitFailedError

        with _explain_failures():
            table = open_delta_table(self._location, self._access)
            if str(table.version()) != snapshot or not keeps_paths(table) or find_type_obstacle(read_schema(table)):
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
            return MergedFiles(str(table.version()), int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"]))

    def find_unused_files(self, snapshots: Iterable[str], days: int) -> set[str]:
        """Find them by a vacuum that deletes nothing: one that does would add commits to the table's log."""
        with _explain_failures():
            table = open_delta_table(self._location, self._access)
            kept = {*map(int, snapshots), table.version()}
            found = table.vacuum(24 * days, dry_run=True, enforce_retention_duration=False, keep_versions=[*kept])
        spelled = {path for each in found for path in (each, unquote(each))}
        data = {path for path in spelled if path.endswith(".parquet") and "/_" not in f"/{path}"}
        needed = {file for version in kept for file in self.list_files(str(version))}
        return {resolve_file(self._location, path) for path in data} - needed


@contextmanager
def _explain_failures() -> Generator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, ValueError) as error:
        raise make_log_fault("Delta") from error


def open_delta_table(
    location: str, access: S3Access | None, version: int | None = None, limits: Mapping[str, str] = _NO_LIMITS
) -> DeltaTable:
    """Return the table at an address, by default its newest version.

    Raises TableFault for a place that deltalake cannot open, or else DeltaError, OSError or ValueError.
    """
    from deltalake import DeltaTable  # a large library, for instances with Delta tables only

    if not can_open(location):
        raise TableFault(f"This Delta table is left to Spark: {SparkOnly.PLACE}.", "unsupported-table")
    options = {**name_delta_options(access), **limits} if access else None
    return DeltaTable(location, version=version, storage_options=options)


def can_open(location: str) -> bool:
    """Return whether deltalake opens a folder: 1.6 panics, or looks in another one, by characters of its path."""
    return _UNOPENED.search(location) is None


def name_delta_options(access: S3Access) -> dict[str, str]:
    """Return the access to a bucket as options of the Rust crate object_store.

    It takes missing fields from the environment, which may have variables for another bucket.
    """
    endpoint = access.endpoint or f"https://s3.{access.region}.amazonaws.com"
    if not access.path_style:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{access.bucket}.{host}"
    return {
        "AWS_ACCESS_KEY_ID": access.access_key_id,
        "AWS_SECRET_ACCESS_KEY": access.secret_access_key,
        "AWS_SESSION_TOKEN": access.session_token or "",
        "AWS_REGION": access.region,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ALLOW_HTTP": str(endpoint.startswith("http:")).lower(),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(not access.path_style).lower(),
    }


def sign_delta_commit(
    author: str, checkpoints: bool = False, rebases: bool = True
) -> tuple[CommitProperties, PostCommitHookProperties]:
    """Return the properties of a commit by an author, which deletes nothing of the log.

    With `checkpoints` one is written where it is due, so that readers need not read a long log from its start. One that
    `rebases` becomes the next version after rows that another writer has added.
    """
    from deltalake import CommitProperties, PostCommitHookProperties

    signed = CommitProperties({"userMetadata": author}, max_commit_retries=None if rebases else 0)
    return signed, PostCommitHookProperties(create_checkpoint=checkpoints, cleanup_expired_logs=False)


def keeps_paths(table: DeltaTable) -> bool:
    """Return whether deltalake can remove the table's files: its commits name them in its own spelling of their paths.

    A file that the log has under another spelling stays in the table. Spark writes `city=Köln`, deltalake
    `city=K%C3%B6ln`.
    """
    return all(path == quote(unquote(path), safe=_UNQUOTED) for path in list_paths(table))


def read_schema(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table."""
    import pyarrow as pa

    return pa.schema(table.schema())


def find_type_obstacle(schema: pa.Schema) -> SparkOnly | None:
    """Return why deltalake must not write columns of these types; None where it can.

    It has the bounds of decimals as floating point numbers. Beyond 15 digits a value may be outside of them, and
    readers then leave the file out. It does not read a map of objects from files in which these have fewer fields.
    """
    import pyarrow as pa

    types = [part for field in schema for part in _list_parts(field.type)]
    if any(pa.types.is_decimal(each) and each.precision > sys.float_info.dig for each in types):
        return SparkOnly.BOUNDS
    maps = (each for each in types if pa.types.is_map(each))
    return SparkOnly.MAPS if any(pa.types.is_struct(part) for each in maps for part in _list_parts(each)) else None


def _list_parts(type_: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and those of its items and fields."""
    import pyarrow as pa

    yield type_
    fields = (type_.field(place).type for place in range(type_.num_fields))
    for each in (type_.key_type, type_.item_type) if pa.types.is_map(type_) else fields:
        yield from _list_parts(each)


def is_plain(table: DeltaTable) -> bool:
    """Return whether a table has no features of the format's later versions but those that deltalake writes."""
    protocol = table.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return protocol.min_writer_version <= _PLAIN_WRITER or (bool(features) and features <= _PLAIN_FEATURES)


def read_delta_log(location: str, newest: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield numbers and commits of the newest versions, the last one first."""
    for version in range(newest, max(newest - MAX_COMMITS, -1), -1):
        content = read_file(f"{location.rstrip('/')}/{LOG_FOLDERS['delta']}/{version:020d}.json")
        lines = content.splitlines() if content is not None else ()  # Delta deletes old entries
        for line in lines:
            if line.startswith(b'{"commitInfo"'):
                yield version, json.loads(line)["commitInfo"]


def sum_files(table: DeltaTable) -> tuple[int, int]:
    """Return the rows and bytes of a table, by its log where that has them."""
    files = _read_files(table)
    counts = [file.get("num_records") for file in files]
    rows = table.count() if None in counts else sum(filter(None, counts))
    return rows, sum(file["size_bytes"] for file in files)


def list_paths(table: DeltaTable) -> Iterable[str]:
    """Return the paths of the table's files, as its log has them."""
    return [file["path"] for file in _read_files(table)]


def _read_files(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the entries of the table's log about its files."""
    import pyarrow as pa

    return pa.table(table.get_add_actions(flatten=True)).to_pylist()


def restore_delta_table(location: str, version: int, author: str) -> bool:
    """Make an earlier version the current one, by a commit; return False for what Spark can restore and this cannot.

    Raises CommitConflict.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    access = find_table_access(location)
    try:
        table = open_delta_table(location, access, limits=SHORT)
        if not is_plain(table) or not keeps_paths(table):
            return False
        signed, log = sign_delta_commit(author)
        table.restore(version, commit_properties=signed, post_commithook_properties=log)
    except CommitFailedError as error:
        raise CommitConflict from error
    except (DeltaError, OSError, ValueError, TableFault):  # Spark reports what fails there too
        return False
    return True
