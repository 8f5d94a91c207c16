"""Publishing of tables: versions are snapshots at one location, the last in the table's log is current."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.data.datasets.collector import FileCollector
from core.data.datasets.repository import DatasetRepository
from core.data.datasets.service import DatasetService
from core.data.files.process import FileReader
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Conflict, Unavailable
from core.lifecycle.executions.outputs import get_table_location, load_targets
from core.lifecycle.executions.spec import build_spec
from core.tables import DatasetVersion, Execution, now
from pipelines.contract.request import OUTPUT
from tests.support.shop import PIPELINE, Shop


@pytest.fixture(autouse=True)
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars in Spark's own folder, which are not looked into."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for name in ("delta-spark_4.1_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults"):
        (tmp_path / "spark" / "jars" / f"{name}-4.4.0.jar").touch()
    (tmp_path / "spark" / "jars" / "delta-kernel-unitycatalog-4.4.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))


def begin(shop: Shop, mode: str = "append", path: str = "spindle://shop/all", more: str = "") -> Execution:
    shop.write_pipeline(f"{PIPELINE}output: {{path: '{path}', mode: {mode}, format: delta}}\n{more}")
    return shop.submit()


def complete(shop: Shop, execution: Execution, snapshot: str, rows: int, **parts: int) -> None:
    location = get_table_location(execution, OUTPUT) or ""
    layout: dict[str, Any] = {"partitionBy": [], "table": {"snapshot": snapshot, "rows": rows, "bytes": 9}}
    layout["table"]["parts"] = [{"values": [name], "rows": part, "bytes": 5} for name, part in parts.items()]
    shop.complete(
        execution,
        output_dataset_path=shop.storage.url_for(location, "spark"),
        output_dataset_format="delta",
        additional_metrics={"output": layout},
    )


def find(shop: Shop, execution: Execution) -> DatasetVersion:
    with shop.database.read() as session:
        datasets = DatasetRepository(session, shop.organization_id)
        version = datasets.find_version(datasets.get(shop.reload(execution).dataset_id or ""))
    assert version is not None
    return version


def test_versions_share_a_location_and_the_next_run_continues_the_published_one(shop: Shop) -> None:
    first = begin(shop)
    complete(shop, first, "0", 3)
    second, third = begin(shop), begin(shop)
    with shop.database.read() as session:
        target = load_targets(session, shop.storage, second)[OUTPUT]
    assert (target.exists, target.format, target.snapshot, target.rows) == (True, "delta", "0", 3)
    assert target.writers == (third.id,)
    complete(shop, second, "2", 9)
    complete(shop, third, "1", 6)
    version = find(shop, second)
    assert (version.snapshot, version.row_count) == ("2", 9), "the last one in the log, not the last report"
    assert version.locations == [get_table_location(first, OUTPUT)]
    assert version.files is None


def test_a_restored_snapshot_is_what_the_next_run_goes_on_from(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for snapshot in ("0", "1"):
        complete(shop, begin(shop), snapshot, 3 * int(snapshot) + 3)
    datasets = DatasetService(shop.settings, shop.storage, FileReader(shop.settings.data, 9))
    caller = Identity(key_id="k", organization_id=shop.organization_id, scopes=frozenset({"datasets:write"}))
    with shop.database.read() as session:
        dataset = DatasetRepository(session, shop.organization_id).list()[0].dataset
    with pytest.raises(Unavailable, match="log of this Delta table is missing"):
        datasets.restore(shop.database, caller, dataset.id, "1")

    def refuse(*_: object) -> list[str]:
        raise Unavailable("SQL does not read Delta tables with columnMapping.", code="unsupported-table")

    monkeypatch.setattr("core.data.datasets.service.list_version_files", refuse)
    _, version = datasets.restore(shop.database, caller, dataset.id, "1")
    assert (version.number, version.snapshot, version.restored_from, version.row_count) == (3, "0", 1, 3)
    next_ = begin(shop)
    with shop.database.read() as session:
        target = load_targets(session, shop.storage, next_)[OUTPUT]
    assert (target.snapshot, target.restored) == ("0", True)
    with pytest.raises(Conflict) as error:
        datasets.restore(shop.database, caller, dataset.id, "2")
    assert error.value.details[0].code == "dataset-written"
    complete(shop, next_, "3", 5)
    assert find(shop, next_).snapshot == "3"
    with shop.database.read() as session:
        assert load_targets(session, shop.storage, begin(shop))[OUTPUT].restored is False


def test_partitions_of_a_table_are_those_of_its_log(shop: Shop) -> None:
    pipeline = PIPELINE.replace("127.0.0.1/", "127.0.0.1/${LAND}")
    lands = [{"values": ["it", "fr", "de"], "parameter": "LAND"}]
    shop.change_job(partitions=lands)
    shop.write_pipeline(f"{pipeline}output: {{format: delta}}\n")
    empty, first, second = (shop.submit(partition=land) for land in ("de", "it", "fr"))
    complete(shop, empty, "0", 0)
    complete(shop, second, "2", 3, it=1, fr=2)
    version = find(shop, second)
    assert version.partitions["it"].execution_id == ""
    complete(shop, first, "1", 1, it=1)
    version = find(shop, second)
    assert {key: (part.execution_id, part.rows) for key, part in version.partitions.items()} == {
        "fr": (second.id, 2), "de": (empty.id, 0), "it": (first.id, 1),
    }  # fmt: skip
    assert (version.snapshot, version.row_count, version.added_bytes) == ("2", 3, 5)
    again = shop.submit(partition="it")
    with shop.database.read() as session:
        assert load_targets(session, shop.storage, again)[OUTPUT].fits_types is True
    reads = "pipeline: [{stage: load_delta, args: ['spindle://shop/books']}]\nspindle: {userAgent: '${LAND}'}"
    reader = shop.add_job("Readers", reads, partitions=lands).submit(partition="fr")
    assert [each.partition for each in reader.inputs.values()] == [(("land", "fr"),)]
    spec = build_spec(shop.settings, shop.storage, reader)
    assert [(each.partition, each.columns[0][0]) for each in spec.inputs.values()] == [((("land", "fr"),), "title")]


def test_a_report_without_a_snapshot_is_refused(shop: Shop) -> None:
    execution = begin(shop)
    with pytest.raises(BadInput):
        complete(shop, execution, "latest", 1)


def test_the_mode_error_protects_rows(shop: Shop) -> None:
    complete(shop, begin(shop), "0", 1)
    with pytest.raises(Conflict):
        begin(shop, "error")
    assert begin(shop, "error", "spindle://shop/other").outputs[OUTPUT].mode == "error"


def test_an_execution_whose_libraries_cannot_be_had_is_not_accepted(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("SPINDLE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("SPINDLE_MAVEN", "http://127.0.0.1:9")
    begin(shop)  # which needs none, unless it grows over to Spark
    with pytest.raises(Unavailable, match="SPINDLE_MAVEN") as error:
        begin(shop, more="spindle: {engine: spark}\n")
    assert [(each.code, each.path) for each in error.value.details] == [("missing-libraries", "output")]


def test_files_of_a_table_stay_while_a_version_or_a_run_names_it(shop: Shop) -> None:
    first = begin(shop)
    location = get_table_location(first, OUTPUT) or ""
    file = f"{location}/part-0.parquet"
    shop.storage.put(file, io.BytesIO(b"rows"))

    def list_files() -> list[str]:
        return [each.key for each in shop.storage.list(location)]

    complete(shop, first, "0", 3)
    second = begin(shop)
    complete(shop, second, "1", 6)
    collector = FileCollector(shop.settings, shop.database, shop.storage)
    late = now() + timedelta(days=9)
    with shop.database.write() as session:
        dataset = DatasetRepository(session, shop.organization_id).get(shop.reload(second).dataset_id or "")
        dataset.retained_versions = 1
    collector.collect(late)
    collector.collect(late + timedelta(days=9))
    assert list_files() == [file], "the current version is in the same files"
    running = begin(shop)
    with shop.database.write() as session:
        session.delete(DatasetRepository(session, shop.organization_id).get(shop.reload(second).dataset_id or ""))
    collector.sweep(late)
    collector.collect(late + timedelta(days=9))
    assert list_files() == [file], "an unfinished execution writes it"
    shop.report(running, "FAILED", error_message="It broke.")
    collector.sweep(late + timedelta(days=20))
    collector.collect(late + timedelta(days=40))
    assert list_files() == []
