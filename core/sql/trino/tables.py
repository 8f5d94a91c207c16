"""Published versions as tables of Trino: registered once, under names that their content determines.

A version is immutable, so its table never changes: publishing makes another table, and queries that read the earlier
one end undisturbed. The tables are in the catalog `hive`, in a schema of the organization; queries read them through
the read-only catalog `hive_ro`.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from threading import Lock

from core.errors import BadInput
from core.infra.storage.protocol import Storage
from core.sql.catalog import Column, Table
from core.sql.files import list_parquet_files
from core.sql.trino.access import AccessRules, name_user
from core.sql.trino.client import TrinoClient

CATALOG, READ_CATALOG = "hive", "hive_ro"
UNUSED_SECONDS = 3600  # after which the table of an earlier version is dropped; files stay
INSTANT = "timestamp"  # Spark's type of a point in time
TIMES = re.compile(r"\btimestamp(\(\d+\))?( with time zone)?")
DELTA = "delta"  # the format, and its catalog
LOCAL = "local://"
NAME_PARTS = 3  # of t_<dataset>_<content>; that of a folder follows


class TrinoTables:
    """Registers tables, remembers them, and drops those of earlier versions."""

    def __init__(self, client: TrinoClient, storage: Storage, rules: AccessRules) -> None:
        self._client = client
        self._storage = storage
        self._rules = rules
        self._lock = Lock()
        self._used: dict[tuple[str, str], float] = {}  # by schema and name
        self._schemas: set[str] = set()

    def register(self, organization_id: str, table: Table) -> tuple[str, ...]:
        """Return the identifiers of the table, which exists when this returns.

        Raises BadInput for tables of Iceberg and for partitioned files, of which a folder is not a version.
        """
        partitioned = bool(table.partition_by) and table.format == "parquet"
        if table.format not in ("parquet", DELTA) or partitioned:
            kind = "is partitioned" if partitioned else f"has the format {table.format}"
            raise BadInput(f"{table.full_name} {kind}, which Trino does not read here.", code="unsupported-table")
        files = list_parquet_files(self._storage, organization_id, table)
        schema, name = name_user(organization_id), _name_table(table)
        with self._lock:
            known = (schema, name) in self._used
            self._used[schema, name] = time.monotonic()
        if not known:
            try:
                self._ensure_schema(schema)
                self._create(schema, name, table, bool(files))
                self._drop_unused(schema, table, name)
            except BaseException:
                self.forget(schema)
                raise
        return READ_CATALOG, schema, name

    def forget(self, schema: str) -> None:
        """Register the tables of a schema again when they are needed: Trino does not have them any more."""
        with self._lock:
            self._schemas.discard(schema)
            for key in [key for key in self._used if key[0] == schema]:
                del self._used[key]

    def _ensure_schema(self, schema: str) -> None:
        if schema not in self._schemas:
            self._client.fetch(f"CREATE SCHEMA IF NOT EXISTS {CATALOG}.{schema}")
            self._rules.admit(schema)
            self._schemas.add(schema)

    def _create(self, schema: str, name: str, table: Table, has_files: bool) -> None:
        columns = table.get_trino_columns()
        _check_names(table, columns)
        stored = [(column.name, _to_hive(column)) for column in columns]
        instants = {column.name for column in table.columns if column.type == INSTANT}
        if table.format == DELTA:
            self._register_delta(schema, name, table, columns)
            return
        if not has_files:
            self._create_view(schema, name, _select_nothing(columns))
            return
        plain = len(table.locations) == 1 and not instants
        parts = [name] if plain else [f"{name}_{position}" for position in range(len(table.locations))]
        for part, location in zip(parts, table.locations, strict=True):
            cells = ", ".join(f"{quote(column)} {type}" for column, type in stored)
            address = quote_text(_to_trino_url(self._storage.url_for(location, "sql")))
            self._client.fetch(
                f"CREATE TABLE IF NOT EXISTS {CATALOG}.{schema}.{part} ({cells}) "
                f"WITH (external_location = {address}, format = 'PARQUET')"
            )
        if not plain:
            cells = ", ".join(_read_cell(column.name, column.name in instants) for column in columns)
            selects = [f"SELECT {cells} FROM {READ_CATALOG}.{schema}.{part}" for part in parts]  # noqa: S608 - quoted
            self._create_view(schema, name, " UNION ALL ".join(selects))

    def _register_delta(self, schema: str, name: str, table: Table, columns: Sequence[Column]) -> None:
        """Register the table once, and its version as a view: later versions of the log are not seen."""
        address = _to_trino_url(self._storage.url_for(table.locations[0], "sql"))
        base = f"b_{hashlib.sha256(address.encode()).hexdigest()[:32]}"
        self._client.fetch(f"CREATE SCHEMA IF NOT EXISTS {DELTA}.{schema}")
        if not self._client.fetch(f"SHOW TABLES FROM {DELTA}.{schema} LIKE {quote_text(base)}"):
            self._client.fetch(
                f"CALL {DELTA}.system.register_table({quote_text(schema)}, {quote_text(base)}, {quote_text(address)})"
            )
        cells = ", ".join(quote(column.name) for column in columns)
        version = int(table.snapshot or 0)
        self._create_view(
            schema,
            name,
            f"SELECT {cells} FROM {DELTA}_ro.{schema}.{base} FOR VERSION AS OF {version}",  # noqa: S608 - quoted
        )

    def _create_view(self, schema: str, name: str, query: str) -> None:
        self._client.fetch(f"CREATE OR REPLACE VIEW {CATALOG}.{schema}.{name} SECURITY INVOKER AS {query}")

    def _drop_unused(self, schema: str, table: Table, current: str) -> None:
        """Drop the tables of the dataset's earlier versions that no query of this process has read for an hour."""
        pattern = f"{_name_dataset(table)}_".replace("_", "\\_") + "%"
        rows = self._client.fetch(f"SHOW TABLES FROM {CATALOG}.{schema} LIKE {quote_text(pattern)} ESCAPE '\\'")
        oldest, names = time.monotonic() - UNUSED_SECONDS, [str(name) for (name,) in rows]
        with self._lock:
            used = {name: self._used.setdefault((schema, _strip_part(name)), time.monotonic()) for name in names}
            unused = [name for name in names if used[name] < oldest and _strip_part(name) != current]
            for name in unused:
                self._used.pop((schema, _strip_part(name)), None)
        for name in unused:
            self._drop(schema, name)

    def _drop(self, schema: str, name: str) -> None:
        try:
            self._client.fetch(f"DROP VIEW IF EXISTS {CATALOG}.{schema}.{name}")
        except BadInput:  # it is a table
            self._client.fetch(f"DROP TABLE IF EXISTS {CATALOG}.{schema}.{name}")


def _name_dataset(table: Table) -> str:
    return f"t_{table.dataset_id.replace('-', '')}"


def _strip_part(name: str) -> str:
    """Return the table's name of a name that may be that of one of its folders."""
    return "_".join(name.split("_")[:NAME_PARTS])


def _name_table(table: Table) -> str:
    columns = [(column.name, column.type) for column in table.columns]
    content = json.dumps([table.format, table.locations, table.snapshot, columns, bool(table.row_count)])
    return f"{_name_dataset(table)}_{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _check_names(table: Table, columns: Sequence[Column]) -> None:
    if len({column.name.lower() for column in columns}) < len(columns):
        sentence = f"Columns of {table.full_name} differ only in case, which Trino cannot read."
        raise BadInput(sentence, code="unsupported-sql")


def _to_hive(column: Column) -> str:
    """Return the type in the catalog: it has points in time without their zone, which is UTC."""
    return TIMES.sub("timestamp(6)", column.type)


def _read_cell(name: str, is_instant: bool) -> str:
    return f"with_timezone({quote(name)}, 'UTC') AS {quote(name)}" if is_instant else quote(name)


def _select_nothing(columns: Sequence[Column]) -> str:
    cells = ", ".join(f"CAST(NULL AS {column.type}) AS {quote(column.name)}" for column in columns)
    return f"SELECT {cells} WHERE false"


def _to_trino_url(url: str) -> str:
    return url if "://" in url else LOCAL + url


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
