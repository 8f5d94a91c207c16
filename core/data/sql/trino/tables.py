"""Published versions as tables of Trino: registered once, under names that their content determines.

A version is immutable, so its table never changes: publishing makes another table, and queries that read the earlier
one end undisturbed. The tables are in the catalog `hive`, in a schema of the organization; queries read them through
the read-only catalog `hive_ro`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar

from core.data.sql.catalog import Table
from core.data.sql.files import list_parquet_keys
from core.data.sql.trino.access import AccessRules, name_user
from core.data.sql.trino.client import TrinoClient
from core.data.sql.trino.folders import CATALOG, READ_CATALOG, FolderTables, is_filled_once
from core.data.sql.trino.logs import LogTables
from core.errors import BadInput, Unavailable
from core.infra.storage.protocol import Storage
from pipelines.duckdb.views import quote_identifier, quote_literal
from pipelines.language.formats import TABLE_FORMATS

UNUSED_SECONDS = 3600  # after which the table of an earlier version is dropped; files stay
TRIES = 5
NAME_PARTS = 3  # of t_<dataset>_<content>; that of a folder follows

T = TypeVar("T")


class TrinoTables:
    """Registers tables, remembers them, and drops those of earlier versions."""

    def __init__(self, client: TrinoClient, storage: Storage, rules: AccessRules) -> None:
        self._client = client
        self._storage = storage
        self._rules = rules
        self._lock = Lock()
        self._folders = FolderTables(client, storage)
        self._logs = LogTables(client, storage)
        self._making: dict[tuple[str, str], Lock] = {}  # one thread at a time makes a table
        self._used: dict[tuple[str, str], float] = {}  # by schema and name
        self._schemas: set[str] = set()

    def register(self, organization_id: str, table: Table) -> tuple[str, ...]:
        """Return the identifiers of the table, which exists when this returns.

        Raises BadInput for tables that Trino cannot read, and Conflict for files that are missing.
        """
        files = list_parquet_keys(self._storage, organization_id, table)
        schema, name = name_user(organization_id), _name_table(table)
        with self._lock:
            making = self._making.setdefault((schema, name), Lock())
        with making:
            with self._lock:
                known = (schema, name) in self._used
            if not known:
                try:
                    repeat(partial(self._create_in_schema, schema, name, table, files), _may_collide)
                    self._drop_unused(schema, table, name)
                except BaseException:
                    self.forget(schema)
                    raise
        with self._lock:
            self._used[schema, name] = time.monotonic()
            self._making.pop((schema, name), None)
        return READ_CATALOG, schema, name

    def forget(self, schema: str) -> None:
        """Register the tables of a schema again when they are needed: Trino does not have them any more."""
        with self._lock:
            self._schemas.discard(schema)
            for key in [key for key in self._used if key[0] == schema]:
                del self._used[key]

    def _create_in_schema(self, schema: str, name: str, table: Table, files: Sequence[str]) -> None:
        """Create the table, after its schema where that is not known; each step may be repeated."""
        if schema not in self._schemas:
            self._client.fetch(f"CREATE SCHEMA IF NOT EXISTS {CATALOG}.{schema}")
            self._rules.admit(schema)
            self._schemas.add(schema)
        self._create(schema, name, table, files)

    def _create(self, schema: str, name: str, table: Table, files: Sequence[str]) -> None:
        columns = table.get_trino_columns()
        if len({column.name.lower() for column in columns}) < len(columns):
            sentence = f"Columns of {table.full_name} differ only in case, which Trino cannot read."
            raise BadInput(sentence, code="unsupported-sql")
        if not files:
            cells = ", ".join(f"CAST(NULL AS {column.type}) AS {quote_identifier(column.name)}" for column in columns)
            query = f"SELECT {cells} WHERE false"
        else:
            query = self._logs.register(schema, name, table, files) if table.format in TABLE_FORMATS else None
            query = query or self._folders.create(schema, name, table, files)
        if query is not None:
            self._client.fetch(f"CREATE OR REPLACE VIEW {CATALOG}.{schema}.{name} SECURITY INVOKER AS {query}")
        for column in columns:
            if column.description:  # for clients that ask Trino itself
                place = f"{CATALOG}.{schema}.{name}.{quote_identifier(column.name)}"
                self._client.fetch(f"COMMENT ON COLUMN {place} IS {quote_literal(column.description)}")

    def _drop_unused(self, schema: str, table: Table, current: str) -> None:
        """Drop the tables of the dataset's earlier versions that no query of this process has read for an hour."""
        pattern = f"{_name_dataset(table)}_".replace("_", "\\_") + "%"
        rows = self._client.fetch(f"SHOW TABLES FROM {CATALOG}.{schema} LIKE {quote_literal(pattern)} ESCAPE '\\'")
        oldest, names = time.monotonic() - UNUSED_SECONDS, [str(name) for (name,) in rows]
        with self._lock:
            used = {name: self._used.setdefault((schema, _strip_part(name)), time.monotonic()) for name in names}
            unused = [name for name in names if used[name] < oldest and _strip_part(name) != current]
            for name in unused:
                self._used.pop((schema, _strip_part(name)), None)
        for name in unused:
            self._drop(schema, name)
            self._logs.drop(schema, name, table)

    def _drop(self, schema: str, name: str) -> None:
        try:
            self._client.fetch(f"DROP VIEW IF EXISTS {CATALOG}.{schema}.{name}")
        except BadInput:  # it is a table
            self._client.fetch(f"DROP TABLE IF EXISTS {CATALOG}.{schema}.{name}")


def repeat(action: Callable[[], T], may_pass: Callable[[BadInput | Unavailable], bool]) -> T:
    """Return the result of an action, repeated a few times after errors that may pass.

    Trino's metastores fail while another process creates the same table, also with IF NOT EXISTS.
    """
    for attempt in range(1, TRIES):
        try:
            return action()
        except (BadInput, Unavailable) as error:
            if not may_pass(error):
                raise
            time.sleep(0.1 * attempt)
    return action()


def _may_collide(error: BadInput | Unavailable) -> bool:
    """Return whether an error may come from another process: what it creates exists already, or a metastore failed."""
    code = error.details[0].code
    return code == "ALREADY_EXISTS" or (isinstance(error, Unavailable) and code.isupper())  # as Trino names its own


def _name_dataset(table: Table) -> str:
    return f"t_{table.dataset_id.replace('-', '')}"


def _strip_part(name: str) -> str:
    """Return the table's name of a name that may be that of one of its folders."""
    return "_".join(name.split("_")[:NAME_PARTS])


def _name_table(table: Table) -> str:
    columns = [(column.name, column.type, column.description) for column in table.columns]
    files = None if is_filled_once(table) else table.files
    layout = [table.format, table.locations, table.snapshot, table.partition_by, files]
    content = json.dumps([*layout, columns, bool(table.row_count)])
    return f"{_name_dataset(table)}_{hashlib.sha256(content.encode()).hexdigest()[:16]}"
