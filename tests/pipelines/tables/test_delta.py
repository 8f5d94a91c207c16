"""Delta tables without Spark: a version is restored, or left to Spark where deltalake would keep rows of later ones."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from pipelines.columns.types import parse_type
from pipelines.errors import RunError
from pipelines.filesystem import STORAGE_ACCESS, S3Access
from pipelines.local.delta_table import NO_CONDITIONS, LocalDeltaTable
from pipelines.tables import delta
from pipelines.tables.delta import (
    CommitConflict,
    StoredDeltaTable,
    keeps_paths,
    list_paths,
    name_delta_options,
    restore_delta_table,
)
from pipelines.tables.protocol import SparkOnly, TableFault
from tests.support.s3 import get_bucket

AUTHOR = "execution:1"


class Lake:
    """A table in a folder or a bucket, and what its log has."""

    def __init__(self, location: str, access: S3Access | None = None) -> None:
        self.location = location
        self.options = name_delta_options(access) if access else None

    def append(self, **columns: Any) -> None:
        write_deltalake(
            self.location, pa.table(columns), mode="append", schema_mode="merge", storage_options=self.options
        )

    def open(self) -> DeltaTable:
        return DeltaTable(self.location, storage_options=self.options)

    def read(self) -> list[Mapping[str, Any]]:
        return self.open().to_pyarrow_table().sort_by("id").to_pylist()


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(str(tmp_path)) if request.param == "folder" else open_lake(monkeypatch)


def open_lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a table in the service's bucket, beside which the environment has the credential of a user."""
    bucket = get_bucket()
    access = S3Access(bucket.name, bucket.endpoint, "us-east-1", True, bucket.access_key, bucket.secret_key, None)
    monkeypatch.setenv(STORAGE_ACCESS, access.to_json())
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.setenv(f"AWS_{name}", "of-a-user")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    return Lake(f"{bucket.address}/table", access)


def test_an_earlier_version_is_restored_by_a_commit_of_its_author(lake: Lake) -> None:
    lake.append(id=[1])
    lake.append(id=[2], price=[1.5])
    assert restore_delta_table(lake.location, 0, AUTHOR)
    assert lake.read() == [{"id": 1}], "its rows and its columns"
    newest = lake.open().history(1)[0]
    assert (newest["version"], newest["operation"], newest["userMetadata"]) == (2, "RESTORE", AUTHOR)
    lake.append(id=[3])
    assert restore_delta_table(lake.location, 1, AUTHOR)
    assert lake.read() == [{"id": 1, "price": None}, {"id": 2, "price": 1.5}]


@pytest.mark.parametrize(
    ("type_", "paid", "is_merged"),
    [
        ("array<struct<amount:decimal(15,2)>>", [{"amount": Decimal("9007199254740.99")}], True),
        ("array<struct<amount:decimal(16,2)>>", [{"amount": Decimal("90071992547409.93")}], False),  # beside its bounds
        ("map<string,map<string,int>>", [("card", [("amount", 1)])], True),
        ("map<string,array<struct<amount:int>>>", [("card", [{"amount": 1}])], False),
    ],
)
def test_files_are_merged_unless_deltalake_would_change_their_rows(
    tmp_path: Path, type_: str, paid: Any, is_merged: bool
) -> None:
    lake = Lake(str(tmp_path))
    for id_ in (1, 2):
        lake.append(id=[id_], paid=pa.array([paid], parse_type(type_)))
    assert (StoredDeltaTable(str(tmp_path), None).merge_files("1", AUTHOR) is not None) is is_merged
    assert len(lake.read()) == 2


@pytest.mark.parametrize("name", ["per%20cent", "a%2fb", "[x]", "a|b", "a^b", "a\\b"])
def test_folders_that_deltalake_cannot_open_are_left_to_spark(tmp_path: Path, name: str) -> None:
    location, schema = f"{tmp_path}/{name}", pa.schema([("id", pa.int64())])
    assert LocalDeltaTable(location).find_column_obstacle(schema) is SparkOnly.PLACE
    assert LocalDeltaTable(location).find_obstacle() is SparkOnly.PLACE
    assert not restore_delta_table(location, 0, AUTHOR)
    with pytest.raises(TableFault, match="left to Spark"):
        StoredDeltaTable(location, None).list_files("0")
    LocalDeltaTable(f"{tmp_path}/100% é {{x}}*?#").create(pa.table({"id": [1]}), ())


def test_a_commit_of_another_writer_comes_first(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append(id=[1])
    lake.append(id=[2])

    def open_and_wait(*_: object, **__: object) -> DeltaTable:
        opened = lake.open()
        lake.append(id=[3])
        return opened

    monkeypatch.setattr(delta, "open_delta_table", open_and_wait)
    with pytest.raises(CommitConflict):
        restore_delta_table(lake.location, 0, AUTHOR)
    assert [row["id"] for row in lake.read()] == [1, 2, 3]


def test_a_long_log_gets_no_checkpoint_and_loses_no_entry(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for number in range(20):
        lake.append(id=[number])
    (tmp_path / "_delta_log/_last_checkpoint").unlink(missing_ok=True)
    before = {path.name for path in (tmp_path / "_delta_log").iterdir()}
    assert restore_delta_table(lake.location, 3, AUTHOR)
    assert {path.name for path in (tmp_path / "_delta_log").iterdir()} - before == {f"{20:020}.json"}
    assert [row["id"] for row in lake.read()] == [0, 1, 2, 3]


PRINTABLE = "".join(sorted({*string.printable} - {*string.whitespace, "/"}))


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (quote(f"city=x/{PRINTABLE}.parquet", safe="/!$&'()+,:;=@"), True),
        ("city=K%C3%B6ln/a%20b.parquet", True),
        ("city=50%2525/c%252Fd.parquet", True),
        ("city=Köln/a.parquet", False),
        ("city=K%c3%b6ln/a.parquet", False),
        ("city=%7E/a.parquet", False),
        ("city=a b/a.parquet", False),
    ],
)
def test_a_file_is_removed_or_the_table_left_to_spark(tmp_path: Path, path: str, kept: bool) -> None:
    lake = Lake(str(tmp_path))
    lake.append(id=[1])
    added = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    lines = (json.dumps(entry) for entry in ({"commitInfo": {"timestamp": 1}}, {"add": added}))
    (tmp_path / f"_delta_log/{1:020}.json").write_text("\n".join(lines))
    assert keeps_paths(lake.open()) is kept
    assert restore_delta_table(lake.location, 0, AUTHOR) is kept
    assert (path in list_paths(lake.open()), lake.open().version()) == ((False, 2) if kept else (True, 1))


def test_tables_with_features_of_later_versions_are_left_to_spark(tmp_path: Path) -> None:
    features = Lake(str(tmp_path / "features"))
    features.append(id=[1])
    features.open().alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    constraint = Lake(str(tmp_path / "constraint"))
    constraint.append(id=[1])
    constraint.open().alter.add_constraint({"positive": "id > 0"})
    for lake in (features, constraint):
        assert not restore_delta_table(lake.location, 0, AUTHOR)
        assert lake.open().version() == 1


def test_files_that_are_gone_are_left_to_spark(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.append(id=[1])
    (file,) = tmp_path.glob("*.parquet")
    write_deltalake(lake.location, pa.table({"id": [2]}), mode="overwrite")
    file.unlink()
    assert not restore_delta_table(lake.location, 0, AUTHOR)
    assert lake.read() == [{"id": 2}]


def test_a_bucket_without_conditional_puts_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = open_lake(monkeypatch)
    for number in (1, 2):
        lake.append(id=[number])
    with monkeypatch.context() as patched:
        patched.setenv("AWS_CONDITIONAL_PUT", "disabled")
        assert not restore_delta_table(lake.location, 0, AUTHOR)
        table = LocalDeltaTable(lake.location)
        with pytest.raises(RunError, match=re.escape(NO_CONDITIONS)), table.sign(AUTHOR):
            table.append(pa.table({"id": [3]}))
    assert [row["id"] for row in lake.read()] == [1, 2]
