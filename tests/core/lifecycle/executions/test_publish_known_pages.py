"""The known pages of incremental jobs: published with the version, or not at all, and forgotten by a reset."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from sqlalchemy import select

from core.data.datasets.collector import FileCollector
from core.data.datasets.known_pages import find_known_pages, reset
from core.data.datasets.service import DatasetService
from core.data.files.process import FileReader
from core.infra.storage.protocol import known_pages_key
from core.lifecycle.executions.outputs import load_targets
from core.tables import Dataset, DatasetVersion, Execution, FileRemoval, now
from pipelines.contract.request import OUTPUT, Target
from tests.support.shop import PIPELINE, Shop

APPENDING = f"{PIPELINE}spindle: {{incremental: true}}\n"
MERGING = f"{PIPELINE}spindle: {{incremental: {{keys: [title]}}}}\n"


def load_target(shop: Shop, execution: Execution) -> Target:
    with shop.database.read() as session:
        return load_targets(session, shop.storage, shop.reload(execution))[OUTPUT]


def begin(shop: Shop, text: str = APPENDING) -> tuple[Execution, dict[str, Any]]:
    """Submit an execution; return it with what its driver reports in the end, if that is new pages."""
    shop.write_pipeline(text)
    execution = shop.submit()
    target = load_target(shop, execution)
    name = target.known_pages.rpartition("/")[2] if target.known_pages else None
    merged = {"merged": {"version": target.version}} if text == MERGING else {}
    return execution, {"knownPages": {"earlier": name, "written": True}, **merged}


def key(execution: Execution) -> str:
    return known_pages_key(execution.organization_id, execution.job_id, execution.id, execution.attempt)


def end(shop: Shop, begun: tuple[Execution, dict[str, Any]], **fields: Any) -> Execution:
    execution, additional = begun
    shop.storage.put(f"{key(execution)}/pages.parquet", BytesIO())
    shop.complete(execution, additional_metrics=additional, **fields)
    return shop.reload(execution)


def get_known(shop: Shop) -> str | None:
    with shop.database.read() as session:
        return find_known_pages(session, shop.organization_id, shop.job_id)


def forget(shop: Shop) -> None:
    with shop.database.write() as session:
        reset(session, shop.caller, shop.project_id, shop.job_id)


def restore(shop: Shop, number: int) -> None:
    with shop.database.read() as session:
        dataset = session.scalars(select(Dataset).where(Dataset.job_id == shop.job_id)).one()
    open_datasets(shop).restore(shop.database, shop.caller, dataset.id, str(number))


def open_datasets(shop: Shop) -> DatasetService:
    return DatasetService(shop.settings, shop.storage, FileReader(shop.settings.data, 9))


def collect(shop: Shop) -> None:
    """Delete what no version names, as the collector does within the next days."""
    collector = FileCollector(shop.settings, shop.database, shop.storage)
    later = now()
    for _ in range(3):
        later += 3 * collector._delay  # pyright: ignore[reportPrivateUsage]
        collector.sweep(later)
        collector.collect(later)


def test_pages_are_published_with_the_version_and_given_to_the_next_execution(shop: Shop) -> None:
    first = end(shop, begin(shop))
    assert (first.state, get_known(shop)) == ("COMPLETED", key(first))
    second = begin(shop)
    assert load_target(shop, second[0]).known_pages == shop.storage.url_for(key(first), "spark")
    ended = end(shop, second, output_dataset_path=None, records_output=0)
    assert (ended.state, get_known(shop)) == ("COMPLETED", key(ended))
    with shop.database.read() as session:
        assert len(session.scalars(select(DatasetVersion)).all()) == 1
        assert session.scalars(select(FileRemoval.location)).all() == [key(first)]


def test_a_failed_execution_leaves_no_pages(shop: Shop) -> None:
    execution, additional = begin(shop)
    shop.report(execution, "FAILED", additional_metrics=additional, error_message="no")
    assert begin(shop)[1]["knownPages"]["earlier"] is None


def test_of_executions_at_the_same_time_one_publishes(shop: Shop) -> None:
    for text in (APPENDING, MERGING):
        one, other = begin(shop, text), begin(shop, text)
        assert end(shop, one).state == "COMPLETED"
        refused = end(shop, other)
        assert (refused.state, refused.error_code) == ("FAILED", "publish-conflict")
        assert get_known(shop) == key(one[0])


def test_a_merge_into_files_replaces_the_version_that_it_read(shop: Shop) -> None:
    merge = f"{PIPELINE}output: {{mode: merge, keys: [title]}}\n"
    begun = [begin(shop, merge)[0] for _ in range(2)]
    none = {"merged": {"version": None}}
    shop.complete(begun[0], additional_metrics=none | {"output": {"totalRows": 7}}, rows=2)
    shop.complete(begun[1], additional_metrics=none)
    assert [shop.reload(each).state for each in begun] == ["COMPLETED", "FAILED"]
    with shop.database.read() as session:
        assert session.scalars(select(DatasetVersion.row_count)).all() == [7]
    target = load_target(shop, begin(shop, merge)[0])
    assert [path.split("/")[-3] for path in target.paths] == [begun[0].id]


def test_a_reset_forgets_the_pages_and_keeps_the_rows(shop: Shop) -> None:
    end(shop, begin(shop))
    running = begin(shop)
    forget(shop)
    assert get_known(shop) is None
    with shop.database.read() as session:
        assert len(session.scalars(select(DatasetVersion)).all()) == 1
    assert end(shop, running).error_code == "publish-conflict"
    assert end(shop, begin(shop)).state == "COMPLETED"


def test_pages_outlive_versions_and_those_of_nobody_are_deleted(shop: Shop) -> None:
    kept = end(shop, begin(shop))
    lost, _ = begin(shop)
    shop.storage.put(f"{key(lost)}/pages.parquet", BytesIO())
    shop.report(lost, "FAILED", error_message="no")
    with shop.database.write() as session:
        dataset = session.scalars(select(Dataset)).one()
        dataset.retained_versions = 1
    collect(shop)
    assert [*shop.storage.list(key(kept))] != []
    assert [*shop.storage.list(key(lost))] == []


def test_a_restored_version_knows_the_pages_of_its_time(shop: Shop) -> None:
    first, second = end(shop, begin(shop)), end(shop, begin(shop))
    assert get_known(shop) == key(second)
    restore(shop, 1)
    assert get_known(shop) == key(first)
    third = begin(shop)
    assert load_target(shop, third[0]).known_pages == shop.storage.url_for(key(first), "spark")
    assert end(shop, third).state == "COMPLETED"
    assert get_known(shop) == key(third[0])
    restore(shop, 2)
    assert get_known(shop) == key(second)


def test_a_restore_brings_back_what_a_replacing_execution_forgot(shop: Shop) -> None:
    first = end(shop, begin(shop))
    shop.write_pipeline(PIPELINE)
    shop.complete(shop.submit())
    assert get_known(shop) is None
    restore(shop, 1)
    assert get_known(shop) == key(first)
    restore(shop, 2)
    assert get_known(shop) is None


def test_rows_that_are_appended_by_another_pipeline_keep_the_pages(shop: Shop) -> None:
    first = end(shop, begin(shop))
    shop.write_pipeline(f"{PIPELINE}output: {{mode: append}}\n")
    shop.complete(shop.submit())
    assert get_known(shop) == key(first)
    restore(shop, 2)
    assert get_known(shop) == key(first)


def test_pages_stay_while_a_version_that_can_be_restored_names_them(shop: Shop) -> None:
    first, second = end(shop, begin(shop)), end(shop, begin(shop))
    collect(shop)
    assert all([*shop.storage.list(key(each))] for each in (first, second))
    with shop.database.write() as session:
        session.scalars(select(Dataset)).one().retained_versions = 1
    collect(shop)
    assert [*shop.storage.list(key(first))] == []
    assert get_known(shop) == key(second)
