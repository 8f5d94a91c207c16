"""Maintenance of Delta and Iceberg tables: files that no version needs go, all others stay, whoever asks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.io.pyarrow import _dataframe_to_data_files  # pyright: ignore[reportPrivateUsage]
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import LongType, NestedField

from core.data.datasets.collector import FileCollector
from core.data.datasets.maintenance import MaintenanceRecord
from core.data.datasets.models import MaintenancePlan, MaintenanceRequest, Retention
from core.data.datasets.service import DatasetService
from core.data.datasets.version_files import list_version_files
from core.data.files.process import FileReader
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Conflict, NotFound
from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.infra.storage.protocol import table_key
from core.tables import Dataset, DatasetVersion, Execution, new_id, now
from core.tables.executions import FrozenInput
from pipelines.tables.delta import name_delta_options
from pipelines.tables.iceberg import StoredIcebergTable
from pipelines.tables.snapshots import parse_iceberg_snapshot
from tests.support.cases import each_case
from tests.support.s3 import get_bucket
from tests.support.shop import Shop, make_shop
from tests.support.tables import append_rows


class Lake:
    """A dataset of one table, each of whose writes is a version."""

    def __init__(self, shop: Shop, format_: str = "delta") -> None:
        self.shop = shop
        self.caller = Identity(key_id="k", organization_id=shop.organization_id, scopes=frozenset({"admin"}))
        self.location = table_key(shop.organization_id, "prices", format_)
        self.service = DatasetService(shop.settings, shop.storage, FileReader(shop.settings, 60))
        self.folder = shop.storage.url_for(self.location, "sql")
        access = shop.storage.export_access()
        self.options = name_delta_options(access) if access else None
        self.numbers = 0
        self.dataset = new_id()
        with shop.database.write() as session:
            names = {"name": "prices", "schema_slug": "shop", "slug": "prices", "format": format_}
            session.add(Dataset(id=self.dataset, organization_id=shop.organization_id, **names))
        self.format = format_

    def write(self, *ids: int, mode: str = "overwrite", publish: bool = True) -> str:
        rows = pa.table({"id": pa.array(ids, pa.int64())})
        if self.format == "delta":
            write_deltalake(self.folder, rows, mode=mode, storage_options=self.options)  # pyright: ignore
            snapshot = str(self.open().version())
        else:
            snapshot = self._write_iceberg(rows, mode)
        if publish:
            self.publish(snapshot, len(ids))
        return snapshot

    def _write_iceberg(self, rows: pa.Table, mode: str) -> str:
        if not [*self.shop.storage.list(self.location)]:
            metadata = new_table_metadata(
                Schema(NestedField(1, "id", LongType(), required=False)), PartitionSpec(), SortOrder(), self.folder
            )
            content = metadata.model_dump_json().encode()
            self.shop.storage.put(f"{self.location}/metadata/v1.metadata.json", BytesIO(content))
        table = self.open_iceberg()
        replaced = [] if mode == "append" else [task.file for task in table.scan().plan_files()]
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as changes:
            for file in replaced:
                changes.delete_data_file(file)
            for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                changes.append_data_file(file)
        current = table.current_snapshot()
        return f"{table.metadata_location.rpartition('/')[2]}#{current.snapshot_id}"

    def publish(self, snapshot: str, rows: int) -> None:
        self.numbers += 1
        version = DatasetVersion(
            id=new_id(), dataset_id=self.dataset, number=self.numbers, format=self.format, locations=[self.location],
            snapshot=snapshot, columns=[{"name": "id", "type": "bigint"}], row_count=rows, partition_by=[],
        )  # fmt: skip
        with self.shop.database.write() as session:
            session.add(version)
            session.flush()
            session.get_one(Dataset, self.dataset).current_version_id = version.id

    def keep(self, versions: int) -> None:
        with self.shop.database.write() as session:
            self.service.set_retention(session, self.caller, self.dataset, Retention(versions=versions))

    def maintain(self, days: int = 0, caller: Identity | None = None) -> MaintenanceRecord:
        request = MaintenanceRequest(days=days)
        return self.service.maintain(self.shop.database, caller or self.caller, self.dataset, request)

    def collect(self, hours: int = 25) -> None:
        collector = FileCollector(self.shop.settings, self.shop.database, self.shop.storage)
        for step in (collector.collect, collector.maintain):
            step(now() + timedelta(hours=hours))

    def open(self, snapshot: str | None = None) -> DeltaTable:
        return DeltaTable(self.folder, version=int(snapshot) if snapshot else None, storage_options=self.options)

    def open_iceberg(self, file: str | None = None) -> Table:
        return StoredIcebergTable(self.folder, self.shop.storage.export_access()).open(file)

    def get_snapshot(self, number: int | None = None) -> str:
        """Return the snapshot of a version, by default the last one."""
        with self.shop.database.read() as session:
            version = session.query(DatasetVersion).filter_by(number=number or self.numbers).one()
        assert version.snapshot is not None
        return version.snapshot

    def read(self, snapshot: str) -> list[int]:
        return sorted(self.read_in_order(snapshot))

    def read_in_order(self, snapshot: str) -> list[int]:
        if self.format == "delta":
            return self.open(snapshot).to_pyarrow_table().column("id").to_pylist()
        file = parse_iceberg_snapshot(snapshot).file
        table = self.open_iceberg(file)
        return table.scan().to_arrow().column("id").to_pylist()

    def list_files(self, snapshot: str) -> list[str]:
        place = (self.shop.organization_id, self.format, [self.location], snapshot)
        return list_version_files(self.shop.storage, *place)


@pytest.fixture(params=["folder", "s3"])
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    settings = Settings(data=tmp_path / "data", **(get_bucket().settings if request.param == "s3" else {}))
    migrate(settings)
    with closing(open_database(settings)) as database:
        yield make_shop(settings, database)


@pytest.fixture
def lake(shop: Shop) -> Lake:
    return Lake(shop)


@pytest.fixture
def glacier(shop: Shop) -> Lake:
    return Lake(shop, "iceberg")


def test_files_that_no_version_needs_are_deleted_later(lake: Lake) -> None:
    first, second, third = lake.write(1), lake.write(2, 3), lake.write(4)
    assert lake.maintain() == MaintenanceRecord(0, 0, None), "all of them are versions"
    lake.keep(versions=1)
    done = lake.maintain()
    assert (done.files_removed, done.bytes_removed > 0) == (2, True)
    assert lake.maintain() == MaintenanceRecord(0, 0, None), "they are counted once"
    lake.collect(hours=23)
    assert lake.read(first) == [1], "a query may still read it"
    lake.collect()
    assert lake.read(third) == [4]
    for snapshot in (first, second):
        with pytest.raises(Exception, match=r"No such file|not found"):
            lake.read(snapshot)
    assert lake.open().version() == int(third), "no commit was added to the log"


def test_files_of_every_kept_version_and_of_the_newest_state_stay(lake: Lake) -> None:
    first = lake.write(1)
    lake.write(2, publish=False)
    third = lake.write(3)
    newest = lake.write(5, mode="append", publish=False)
    assert lake.maintain().files_removed == 1, "that of the snapshot without a version"
    lake.collect()
    assert (lake.read(first), lake.read(third), lake.read(newest)) == ([1], [3], [3, 5])


def test_files_stay_for_the_days_after_they_were_replaced(lake: Lake) -> None:
    lake.write(1)
    lake.write(2)
    lake.keep(versions=1)
    assert lake.maintain(days=1).files_removed == 0
    assert lake.maintain(days=0).files_removed == 1


def test_a_snapshot_that_an_unfinished_execution_reads_stays(lake: Lake) -> None:
    first, second = lake.write(1), lake.write(2)
    lake.write(3)
    execution = lake.shop.submit()
    place = {"format": "delta", "locations": (lake.location,), "snapshot": first}
    frozen = FrozenInput(dataset=lake.dataset, version="removed", number=1, **place)
    with lake.shop.database.write() as session:
        session.get_one(Execution, execution.id).inputs = {"prices": frozen}
    lake.keep(versions=1)
    assert lake.maintain().files_removed == 1
    lake.collect()
    assert lake.read(first) == [1]
    with pytest.raises(Exception, match=r"No such file|not found"):
        lake.read(second)


def test_small_files_are_merged_in_the_order_of_their_rows(lake: Lake) -> None:
    first = lake.write(4)
    lake.write(9, mode="append", publish=False)
    rows = lake.write(2, 7, mode="append")
    done = lake.maintain()
    assert (done.files_merged, done.files_written, done.files_removed) == (3, 1, 2), "version 1 has the first file"
    snapshot = lake.get_snapshot()
    assert (lake.get_snapshot(1), int(snapshot)) == (first, int(rows) + 1)
    assert len(lake.list_files(snapshot)) == 1
    assert lake.read_in_order(snapshot) == lake.read_in_order(rows) == [2, 7, 9, 4]
    lake.collect()
    assert (lake.read(first), lake.read(snapshot)) == ([4], [2, 4, 7, 9])
    assert lake.maintain() == MaintenanceRecord(0, 0, None), "one file is as large as it gets"


def test_a_snapshot_that_an_execution_reads_keeps_its_small_files(lake: Lake) -> None:
    lake.write(1, publish=False)
    snapshot = lake.write(2, mode="append")
    execution = lake.shop.submit()
    place = {"format": "delta", "locations": (lake.location,), "snapshot": snapshot}
    with lake.shop.database.write() as session:
        frozen = FrozenInput(dataset=lake.dataset, version="current", number=1, **place)
        session.get_one(Execution, execution.id).inputs = {"prices": frozen}
    assert (lake.maintain().files_merged, lake.maintain().files_removed) == (2, 0)
    lake.collect()
    assert lake.read(snapshot) == [1, 2]


def test_a_table_that_another_program_has_changed_is_not_merged(lake: Lake) -> None:
    lake.write(1)
    published = lake.write(2, mode="append")
    newest = lake.write(3, mode="append", publish=False)
    assert lake.maintain() == MaintenanceRecord(0, 0, None)
    assert (lake.get_snapshot(), lake.open().version()) == (published, int(newest))


def test_files_that_deltalake_cannot_remove_are_not_merged(lake: Lake) -> None:
    lake.write(1)
    published = lake.write(2, mode="append")
    storage, log = lake.shop.storage, f"{lake.location}/_delta_log/{int(published):020}.json"
    with closing(storage.open(log)) as stream:
        entries = stream.read().decode()
    (file,) = re.findall(r'"path":"([^"]+)"', entries)
    with closing(storage.open(f"{lake.location}/{file}")) as rows:
        storage.put(f"{lake.location}/Köln-{file}", BytesIO(rows.read()))
    storage.put(log, BytesIO(entries.replace(file, f"Köln-{file}").encode()))  # as Spark spells it
    assert lake.maintain() == MaintenanceRecord(0, 0, None)
    assert (lake.open().version(), lake.read(published)) == (int(published), [1, 2])


def test_other_organizations_formats_and_values_are_refused(lake: Lake, shop: Shop) -> None:
    rival = make_shop(shop.settings, shop.database, "rival")
    stranger = Identity(key_id="r", organization_id=rival.organization_id, scopes=frozenset({"admin"}))
    lake.write(1)
    with pytest.raises(NotFound):
        lake.maintain(caller=stranger)
    with pytest.raises(BadInput):
        lake.maintain(days=-1)
    with shop.database.write() as session:
        session.query(DatasetVersion).one().format = "parquet"
    assert lake.maintain() == MaintenanceRecord(0, 0, None)


def test_a_plan_beside_the_retention_maintains_by_itself(lake: Lake) -> None:
    first, last = lake.write(1), lake.write(2)
    retention = Retention(versions=1, maintenance=MaintenancePlan(days=0, every="PT12H"))
    with lake.shop.database.write() as session:
        lake.service.set_retention(session, lake.caller, lake.dataset, retention)
    lake.collect(hours=0)
    assert lake.read(first) == [1]
    lake.write(3)
    lake.collect(hours=11)
    assert lake.maintain().files_removed == 1, "twelve hours are not over"
    lake.collect(hours=49)
    lake.collect(hours=50)
    assert lake.read(str(int(last) + 1)) == [3]
    with pytest.raises(Exception, match=r"No such file|not found"):
        lake.read(first)


@each_case(("days", "every"), [(-1, "P1D"), (7, "PT1S"), (7, "daily")])
def test_a_plan_that_cannot_be_is_refused(lake: Lake, days: int, every: str) -> None:
    retention = Retention(maintenance=MaintenancePlan(days=days, every=every))
    with lake.shop.database.write() as session, pytest.raises(BadInput):
        lake.service.set_retention(session, lake.caller, lake.dataset, retention)


def test_snapshots_of_iceberg_that_no_version_needs_expire(glacier: Lake) -> None:
    first, second, third = glacier.write(1), glacier.write(2, 3), glacier.write(4)
    assert glacier.maintain() == MaintenanceRecord(0, 0, None), "all of them are versions"
    glacier.keep(versions=1)
    assert glacier.maintain(days=1) == MaintenanceRecord(0, 0, None)
    done = glacier.maintain()
    assert (done.files_removed > 4, done.bytes_removed > 0) == (True, True), "data files, manifests and their lists"
    assert glacier.maintain() == MaintenanceRecord(0, 0, None), "they are counted once"
    table = glacier.open_iceberg()
    assert not {parse_iceberg_snapshot(each).id for each in (first, second)} & {
        str(each.snapshot_id) for each in table.metadata.snapshots
    }
    glacier.collect(hours=23)
    assert glacier.read(first) == [1], "a query may still read it"
    glacier.collect()
    assert (glacier.read(third), glacier.get_snapshot()) == ([4], third)
    for snapshot in (first, second):
        with pytest.raises(OSError, match=r"No such file|not found|does not exist|Path"):
            glacier.read(snapshot)
    fourth = glacier.write(5, mode="append")
    assert glacier.read(fourth) == [4, 5]


def test_small_files_of_iceberg_are_merged_in_the_order_of_their_rows(glacier: Lake) -> None:
    first = glacier.write(4)
    glacier.write(9, mode="append", publish=False)
    rows = glacier.write(2, 7, mode="append")
    order = glacier.read_in_order(rows)
    done = glacier.maintain()
    assert (done.files_merged, done.files_written) == (3, 1)
    snapshot = glacier.get_snapshot()
    assert (glacier.get_snapshot(1), len(glacier.list_files(snapshot))) == (first, 1)
    assert glacier.read_in_order(snapshot) == order
    glacier.collect()
    assert (glacier.read(first), glacier.read(snapshot)) == ([4], [2, 4, 7, 9])
    assert glacier.maintain() == MaintenanceRecord(0, 0, None), "one file is as large as it gets"
    later = glacier.write(1, mode="append")
    assert glacier.read(later) == [1, 2, 4, 7, 9]


def test_an_iceberg_table_that_another_program_has_changed_is_not_merged(glacier: Lake) -> None:
    glacier.write(1)
    published = glacier.write(2, mode="append")
    newest = glacier.write(3, mode="append", publish=False)
    assert glacier.maintain() == MaintenanceRecord(0, 0, None)
    assert (glacier.get_snapshot(), glacier.read(newest)) == (published, [1, 2, 3])


def test_an_iceberg_table_of_another_catalog_is_not_maintained(glacier: Lake) -> None:
    rows = pa.table({"id": [1]})
    snapshots = [append_rows(glacier.shop.settings, "iceberg", glacier.location, rows) for _ in range(2)]
    glacier.publish(snapshots[-1], 2)
    with pytest.raises(Conflict) as error:
        glacier.maintain()
    assert error.value.details[0].code == "unsupported-maintenance"
