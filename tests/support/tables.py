"""Delta and Iceberg tables that tests write without Spark, by the formats' own libraries."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from core.infra.settings import Settings
from core.infra.storage import open_storage
from pipelines.tables.delta import name_delta_options
from pipelines.tables.iceberg import name_iceberg_properties


def append_rows(settings: Settings, format_: str, key: str, rows: pa.Table, partition_by: Sequence[str] = ()) -> str:
    """Append rows to the table in a folder of the storage, which is created; return the snapshot."""
    return (_append_delta if format_ == "delta" else _append_iceberg)(settings, key, rows, partition_by)


def _append_delta(settings: Settings, key: str, rows: pa.Table, partition_by: Sequence[str]) -> str:
    from deltalake import DeltaTable, write_deltalake

    storage = open_storage(settings.storage)
    access = storage.export_access()
    options = name_delta_options(access) if access else None
    place = storage.url_for(key, "sql")
    write_deltalake(place, rows, mode="append", partition_by=[*partition_by] or None, storage_options=options)
    return str(DeltaTable(place, storage_options=options).version())


def _append_iceberg(settings: Settings, key: str, rows: pa.Table, partition_by: Sequence[str]) -> str:
    from pyiceberg.catalog.sql import SqlCatalog

    storage = open_storage(settings.storage)
    access = storage.export_access()
    properties = name_iceberg_properties(access) if access else {}
    catalog = SqlCatalog("tests", uri=f"sqlite:///{settings.data}/iceberg.db", **properties)
    catalog.create_namespace_if_not_exists("tests")
    name = f"tests.{key.replace('/', '_')}"
    table = catalog.create_table_if_not_exists(name, rows.schema, storage.url_for(key, "sql"))
    if partition_by and not table.metadata.snapshots:
        with table.update_spec() as spec:
            for column in partition_by:
                spec.add_identity(column)
    table.append(rows)
    table.refresh()
    snapshot = table.current_snapshot()
    return f"{table.metadata_location.rpartition('/')[2]}#{snapshot.snapshot_id}"
