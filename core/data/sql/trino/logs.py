"""Versions of Delta and Iceberg tables in Trino, which reads their logs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress

from core.data.sql.catalog import Table
from core.data.sql.trino.client import TrinoClient
from core.data.sql.trino.folders import LOCAL, can_read_folders, to_trino_url
from core.errors import BadInput
from core.infra.storage.protocol import Storage
from pipelines.duckdb.views import quote_identifier, quote_literal
from pipelines.tables.snapshots import parse_iceberg_snapshot

DELTA, ICEBERG = "delta", "iceberg"  # formats, and catalogs; queries read through those with `_ro`
INSTANTS = re.compile(r"\btimestamp\b(?!_ntz)")
NO_CATALOG = ("CATALOG_NOT_FOUND", "NOT_FOUND")


class LogTables:
    """Registers tables by the place of their logs."""

    def __init__(self, client: TrinoClient, storage: Storage) -> None:
        self._client = client
        self._storage = storage

    def register(self, schema: str, name: str, table: Table, files: Sequence[str]) -> str | None:
        """Register a version and return the query that reads it; None when its files must be read instead.

        These are read when Trino has no catalog of the format; when a Delta table has points in time, of which Trino's
        log reader keeps milliseconds only; and when an Iceberg table is in a folder of the machine, because its log
        has addresses without Trino's scheme.
        """
        address = to_trino_url(self._storage.url_for(table.locations[0], "sql"))
        if table.format == ICEBERG and address.startswith(LOCAL):
            return None
        if table.format == DELTA and _has_instants(table) and can_read_folders(table, files):
            return None
        register = self._register_delta if table.format == DELTA else self._register_iceberg
        try:
            source = register(schema, name, table, address)
        except BadInput as error:
            if error.details[0].code not in NO_CATALOG:
                raise
            return None
        cells = ", ".join(quote_identifier(column.name) for column in table.columns)
        return f"SELECT {cells} FROM {source}"  # noqa: S608 - quoted

    def drop(self, schema: str, name: str, table: Table) -> None:
        """Forget an earlier version; its files stay. Delta has one table for all versions."""
        if table.format == ICEBERG:
            with suppress(BadInput):  # it was read by its files
                names = f"{quote_literal(schema)}, {quote_literal(name)}"
                self._client.fetch(f"CALL {ICEBERG}.system.unregister_table({names})")

    def _register_delta(self, schema: str, name: str, table: Table, address: str) -> str:
        """Register the table once: its versions are told apart by their numbers."""
        base = f"b_{hashlib.sha256(address.encode()).hexdigest()[:32]}"
        self._call_once(DELTA, schema, base, quote_literal(address))
        return f"{DELTA}_ro.{schema}.{base} FOR VERSION AS OF {int(table.snapshot or 0)}"

    def _register_iceberg(self, schema: str, name: str, table: Table, address: str) -> str:
        """Register the version's own metadata file, in which its snapshot is the current one."""
        file = parse_iceberg_snapshot(table.snapshot or "").file
        self._call_once(ICEBERG, schema, name, f"{quote_literal(address)}, {quote_literal(file)}")
        return f"{ICEBERG}_ro.{schema}.{name}"

    def _call_once(self, catalog: str, schema: str, name: str, arguments: str) -> None:
        self._client.fetch(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{schema}")
        pattern = quote_literal(name.replace("_", "\\_"))
        if not self._client.fetch(f"SHOW TABLES FROM {catalog}.{schema} LIKE {pattern} ESCAPE '\\'"):
            names = f"{quote_literal(schema)}, {quote_literal(name)}"
            self._client.fetch(f"CALL {catalog}.system.register_table({names}, {arguments})")


def _has_instants(table: Table) -> bool:
    return any(INSTANTS.search(column.type) for column in table.columns)
