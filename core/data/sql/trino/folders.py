"""Parquet files as external tables of Trino's catalog `hive`, one for every folder.

Trino reads all files of a folder. Where a folder may have files of other versions, the query names its own by their
paths. Values in the names of folders are partitions, which are added to Trino's metastore.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.data.columns import Column
from core.data.datasets.version_files import get_folder_columns
from core.data.sql.catalog import Table
from core.data.sql.trino.client import TrinoClient
from core.errors import BadInput
from core.infra.storage.protocol import Storage
from pipelines.duckdb.views import quote_identifier, quote_literal

CATALOG, READ_CATALOG = "hive", "hive_ro"
LOCAL = "local://"
INSTANT = "timestamp"  # Spark's type of a point in time
FILLED_ONCE = ("executions", "datasets")  # folders of an organization below which each folder has one writer
MAX_FOLDERS = 100
MAX_NAMED_FILES = 1000
SYNC_SECONDS = 300
TIMES = re.compile(r"\btimestamp(\(\d+\))?( with time zone)?")
ENCODED = re.compile("%[89A-Fa-f][0-9A-Fa-f]")  # a letter beyond ASCII, which Trino and Spark do not decode
FOLDER_TYPES = re.compile(r"varchar|boolean|(tiny|small|big)?int(eger)?|real|double|date|decimal\(.*\)")


@dataclass(frozen=True, slots=True)
class Folder:
    """The key of a folder; its `files` if it may contain others, its `columns` if it is partitioned by them."""

    key: str
    files: Sequence[str] = ()
    columns: Sequence[str] = ()


class FolderTables:
    """Makes external tables over folders."""

    def __init__(self, client: TrinoClient, storage: Storage) -> None:
        self._client = client
        self._storage = storage

    def create(self, schema: str, name: str, table: Table, files: Sequence[str]) -> str | None:
        """Create external tables and return the query that reads the files; None when the table `name` is enough.

        Raises BadInput for files in too many folders, and for folders that name values which Trino cannot read.
        """
        folders = plan_folders(table, files)
        columns = table.get_trino_columns()
        instants = {column.name for column in table.columns if column.type == INSTANT}
        cells = {column.name: _to_hive(column) for column in columns}
        texts = {column.name: column.type for column in columns if column.name in folders[0].columns}
        cells |= _choose_folder_types(table, texts)
        plain = len(folders) == 1 and not (instants or folders[0].files or folders[0].columns)
        parts = [name] if plain else [f"{name}_{position}" for position in range(len(folders))]
        for part, folder in zip(parts, folders, strict=True):
            self._create_table(f"{CATALOG}.{schema}.{part}", cells, folder)
            if folder.columns:
                names = f"{quote_literal(schema)}, {quote_literal(part)}"
                call = f"CALL {CATALOG}.system.sync_partition_metadata({names}, 'FULL', false)"
                self._client.fetch(call, seconds=SYNC_SECONDS)
        if plain:
            return None
        widens = table.format == "iceberg"
        read = ", ".join(_read_cell(column, cells[column.name], column.name in instants, widens) for column in columns)
        queries = (f"SELECT {read} FROM {READ_CATALOG}.{schema}.{part}" for part in parts)  # noqa: S608 - quoted
        return " UNION ALL ".join(map(self._select_files, queries, folders))

    def _create_table(self, name: str, cells: Mapping[str, str], folder: Folder) -> None:
        own = [column for column in cells if column not in folder.columns]
        columns = ", ".join(f"{quote_identifier(column)} {cells[column]}" for column in (*own, *folder.columns))
        options = f"external_location = {quote_literal(self._find_address(folder.key))}, format = 'PARQUET'"
        if folder.columns:
            names = ", ".join(quote_literal(column.lower()) for column in folder.columns)
            options += f", partitioned_by = ARRAY[{names}]"
        self._client.fetch(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) WITH ({options})")

    def _select_files(self, query: str, folder: Folder) -> str:
        """Restrict a query over a folder to its named files."""
        if not folder.files:
            return query
        return f'{query} WHERE "$path" IN ({", ".join(quote_literal(self._find_address(key)) for key in folder.files)})'

    def _find_address(self, key: str) -> str:
        return to_trino_url(self._storage.url_for(key, "sql"))


def to_trino_url(url: str) -> str:
    """Return the address of a file or folder; Trino has its own scheme for those of its machine."""
    return url if "://" in url else LOCAL + url


def can_read_folders(table: Table, files: Sequence[str]) -> bool:
    """Return whether `create` accepts the files."""
    try:
        plan_folders(table, files)
    except BadInput:
        return False
    return True


def is_filled_once(table: Table) -> bool:
    """Return whether the table's folders have no other files than its own."""
    places = (location.split("/") for location in table.locations)
    return table.format == "parquet" and all(len(parts) > 2 and parts[1] in FILLED_ONCE for parts in places)


def plan_folders(table: Table, files: Sequence[str]) -> list[Folder]:
    """Return the folders for external tables: those that contain the files, or the partitioned ones above them.

    Raises BadInput for files that Trino cannot read.
    """
    columns = tuple(get_folder_columns(table.format, table.partition_by))
    found: dict[str, list[str]] = {}
    for file in files:
        place = _find_location(table, file, columns) if columns else file.rpartition("/")[0]
        found.setdefault(place, []).append(file)
    named = not is_filled_once(table)
    if len(found) > MAX_FOLDERS:
        raise _refuse(table, f"has files in {len(found):,} folders")
    if named and len(files) > MAX_NAMED_FILES:
        raise _refuse(table, f"has {len(files):,} files in folders with others")
    return [Folder(key, keys if named else (), columns) for key, keys in found.items()]


def _find_location(table: Table, file: str, columns: Sequence[str]) -> str:
    """Return the partitioned folder of the table that contains a file; raise BadInput for other columns than these."""
    for location in table.locations:
        if file.startswith(f"{location}/"):
            parts = file.removeprefix(f"{location}/").split("/")[:-1]
            if any(map(ENCODED.search, parts)):
                raise _refuse(table, "has encoded letters in the names of folders")
            if [part.partition("=")[0] for part in parts] == [*columns]:
                return location
    raise _refuse(table, f"is not partitioned by {', '.join(columns)} as it says")


def _choose_folder_types(table: Table, types: Mapping[str, str]) -> dict[str, str]:
    """Return the types of columns in folders' names; Trino reads points in time there as text only."""
    chosen: dict[str, str] = {}
    for name, type in types.items():
        if TIMES.fullmatch(type):
            chosen[name] = "varchar"
        elif FOLDER_TYPES.fullmatch(type):
            chosen[name] = type
        else:
            raise _refuse(table, f"is partitioned by a column of the type {type}")
    return chosen


def _refuse(table: Table, reason: str) -> BadInput:
    return BadInput(f"{table.full_name} {reason}, which Trino does not read here.", code="unsupported-table")


def _to_hive(column: Column) -> str:
    """Return the type in the catalog: it has points in time without their zone, which is UTC."""
    return TIMES.sub("timestamp(6)", column.type)


def _read_cell(column: Column, stored: str, is_instant: bool, widens: bool) -> str:
    """Return the expression of a column; of one that `widens`, some files may have numbers of a narrower type.

    Trino cannot compare a double with the statistics of a file that has floats: a product has none.
    """
    name = quote_identifier(column.name)
    if widens and column.type == "double":
        return f"{name} * 1e0 AS {name}"
    cell = f"CAST({name} AS {_to_hive(column)})" if stored != _to_hive(column) else name
    if is_instant:
        cell = f"with_timezone({cell}, 'UTC')"
    return cell if cell == name else f"{cell} AS {name}"
