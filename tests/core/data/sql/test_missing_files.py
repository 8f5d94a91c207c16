"""Versions whose files another program has deleted: an error that names the version, never fewer rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from core.data.datasets import missing_files
from core.data.sql.service import Query
from core.errors import Conflict
from core.infra.storage import open_storage
from core.infra.storage.protocol import Storage
from core.tables import DatasetVersion
from tests.support.other_programs import open_delta
from tests.support.warehouse import Warehouse

COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "at", "type": "timestamp"}]
INSTANT = pa.array([0], pa.timestamp("us", tz="UTC"))  # Delta tables with points in time are read file by file


def publish(warehouse: Warehouse, name: str, format_: str, *ids: int) -> str:
    """Publish a version for each id; those of tables have the rows before too."""
    dataset = ""
    for each in ids:
        rows = pa.table({"id": [each], "at": INSTANT})
        dataset = warehouse.publish("acme", "shop", name, rows, COLUMNS, format_)
    return dataset


def read_ids(warehouse: Warehouse, dataset: str, version: int) -> list[int]:
    with warehouse.database.read() as session:
        found = session.query(DatasetVersion).filter_by(dataset_id=dataset, number=version).one()
    query = Query("SELECT id FROM dataset ORDER BY id", dataset_id=dataset, version=found.id)
    return [row["id"] for row in warehouse.queries.run(warehouse.caller("acme"), query).page.rows]


def open_table(warehouse: Warehouse, dataset: str):
    with warehouse.database.read() as session:
        location = session.query(DatasetVersion).filter_by(dataset_id=dataset).first()
    return open_delta(open_storage(warehouse.settings.storage).url_for(location.locations[0], "sql"))


@pytest.mark.long
def test_versions_that_a_vacuum_has_emptied_are_refused_by_their_numbers(busy_warehouse: Warehouse) -> None:
    """Another program deletes a row and then the files that only earlier versions have."""
    dataset = publish(busy_warehouse, "vacuumed", "delta", 1, 2, 3)
    assert read_ids(busy_warehouse, dataset, 2) == [1, 2]
    table = open_table(busy_warehouse, dataset)
    table.delete("id = 1")
    assert read_ids(busy_warehouse, dataset, 3) == [1, 2, 3]
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    for version in (1, 2, 3):
        with pytest.raises(Conflict, match=f"Files of version {version} of shop.vacuumed are missing") as refused:
            read_ids(busy_warehouse, dataset, version)
        assert refused.value.details[0].code == "missing-files"
    publish(busy_warehouse, "vacuumed", "delta", 4)
    assert read_ids(busy_warehouse, dataset, 4) == [2, 3, 4]


@pytest.mark.parametrize("format_", ["parquet", "delta", "iceberg"])
def test_a_file_that_was_deleted_without_a_log_is_missed_within_a_minute(
    busy_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    later = 0.0
    monkeypatch.setattr("core.data.sql.files.MISSING_FILES", missing_files.MissingFilesCheck(lambda: later))
    name = f"deleted_{format_}"
    dataset = publish(busy_warehouse, name, format_, 1)
    assert read_ids(busy_warehouse, dataset, 1) == [1]
    storage = open_storage(busy_warehouse.settings.storage)
    with busy_warehouse.database.read() as session:
        version = session.query(DatasetVersion).filter_by(dataset_id=dataset).one()
    file = next(file.key for file in storage.list(version.locations[0]) if file.key.endswith(".parquet"))
    storage.delete(file)
    later = 60.0
    with pytest.raises(Conflict, match=f"Files of version 1 of shop.{name} are missing"):
        read_ids(busy_warehouse, dataset, 1)


def test_a_table_is_looked_at_once_for_each_state_of_its_log(
    busy_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = missing_files.MissingFilesCheck(lambda: 0)
    monkeypatch.setattr("core.data.sql.files.MISSING_FILES", check)
    dataset = publish(busy_warehouse, "looked_at", "delta", 1)
    with busy_warehouse.database.read() as session:
        location = session.query(DatasetVersion).filter_by(dataset_id=dataset).one().locations[0]
    looks: list[str] = []
    inner = open_storage(busy_warehouse.settings.storage)
    listed: Callable[[str], object] = type(inner).list

    def list_and_note(storage: Storage, folder: str) -> object:
        looks.append(folder)
        return listed(storage, folder)  # pyright: ignore[reportCallIssue]

    monkeypatch.setattr(type(inner), "list", list_and_note)
    for _ in range(3):
        read_ids(busy_warehouse, dataset, 1)
    assert looks.count(location) == 1
    open_table(busy_warehouse, dataset).delete("id = 7")
    publish(busy_warehouse, "looked_at", "delta", 2)
    for _ in range(3):
        read_ids(busy_warehouse, dataset, 1)
    assert looks.count(location) == 2
