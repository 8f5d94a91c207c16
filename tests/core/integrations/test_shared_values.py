"""What old rows have in common is stored once by a cleanup, and read as before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from core.data.datasets import versions as versions_module
from core.data.datasets.repository import DatasetRepository
from core.data.datasets.versions import apply_retention, find_task_output, list_versions
from core.data.sql.catalog import Catalog, Table
from core.infra import shared_values
from core.infra.repository import lock_organization, lock_row
from core.integrations.cleanup import Cleaner
from core.lifecycle.executions.leftovers import SHARED, SHARED_OF_BILLS, remove_details
from core.lifecycle.metrics.totals import Overview, summarize
from core.lifecycle.usage.periods import Period
from core.tables import Dataset, DatasetVersion, Execution, ExecutionBill, SharedValues, now
from tests.support.shop import Shop

LATE = timedelta(days=31)


@pytest.fixture
def cleaner(shop: Shop) -> Cleaner:
    return Cleaner(shop.settings, shop.database, shop.storage, lambda _cleanup, _before: None)


@pytest.fixture
def executions(shop: Shop) -> list[Execution]:
    """Four of one job, each with a version of its dataset; the last one is its newest."""
    found = [shop.submit() for _ in range(4)]
    for execution in found:
        shop.complete(execution, output_file_size_bytes=1000)
    return found


def read_bills(shop: Shop) -> list[dict[str, Any]]:
    names = [column.key for column in ExecutionBill.__table__.columns if column.key != "shared_id"]
    with shop.database.read() as session:
        bills = session.scalars(select(ExecutionBill).order_by(ExecutionBill.execution_id)).all()
        return [{name: getattr(bill, name) for name in names} for bill in bills]


def read_versions(shop: Shop) -> list[dict[str, Any]]:
    names = [column.key for column in DatasetVersion.__table__.columns if column.key != "shared_id"]
    with shop.database.read() as session:
        versions = session.scalars(select(DatasetVersion).order_by(DatasetVersion.number)).all()
        return [{name: getattr(version, name) for name in names} for version in versions]


def read_tables(shop: Shop) -> list[Table | None]:
    """Return each version as queries find it."""
    with shop.database.read() as session:
        catalog = Catalog(session, shop.organization_id)
        versions = session.scalars(select(DatasetVersion).order_by(DatasetVersion.number)).all()
        return [catalog.find_by_version(each.dataset_id, each.id) for each in versions]


def read_stored(shop: Shop, table: Any) -> list[Mapping[str, Any]]:
    with shop.database.read() as session:
        return [*session.execute(select(*table.__table__.columns).where(table.shared_id.is_not(None))).mappings()]


def count_shared(shop: Shop) -> int:
    with shop.database.read() as session:
        return session.scalar(select(func.count()).select_from(SharedValues)) or 0


def sum_up(shop: Shop, **chosen: str) -> Overview:
    """The sums of the last minute, of which the bills are read themselves."""
    until = now()
    with shop.database.read() as session:
        period = Period(until - timedelta(minutes=1), until)
        return summarize(session, shop.organization_id, period, "pipeline", **chosen)


def test_executions_of_a_job_share_one_row(shop: Shop, cleaner: Cleaner, executions: list[Execution]) -> None:
    before = [shop.content(each) for each in executions]
    cleaner.clean_up(now() + LATE)
    after = [shop.content(each) for each in executions]
    for old, new in zip(before, after, strict=True):
        assert {name: new[name] for name in SHARED} == {name: old[name] for name in SHARED}
    assert after[0]["dataset_id"] is not None
    assert after[0]["agent_id"] == shop.agent_id
    assert after[0]["metrics"]["output_dataset_schema"] == before[0]["metrics"]["output_dataset_schema"]
    assert after[0]["progress"] == {"fraction": 1.0}
    stored = read_stored(shop, Execution)
    assert len(stored) == len({each["id"] for each in stored}) == 3
    assert len({each["shared_id"] for each in stored}) == 1
    assert {(each["agent_id"], each["job_name"], each["dataset_id"]) for each in stored} == {("", "", None)}
    assert set(stored[0]["metrics"]) <= {"figures", "output_file_size_bytes", "records_output"}
    with shop.database.write() as session:  # a read again under a lock has them too
        row = session.get_one(Execution, executions[0].id)
        lock_row(session, shop.organization_id, row)
        assert (row.job_name, row.agent_id) == (before[0]["job_name"], shop.agent_id)
        assert find_task_output(session, shop.organization_id, str(executions[0].task_id))[1] == executions[0].id
        row.spark_ui_url = "http://127.0.0.1/"
    assert {each["job_name"] for each in read_stored(shop, Execution)} == {""}  # and a change leaves them out


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_job_that_is_deleted_meanwhile_ends_no_cleanup(
    shop: Shop, executions: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock(session: Session, organization_id: str) -> None:
        shop.delete_job()
        lock_organization(session, organization_id)

    other = shop.add_job("Other")
    for _ in range(2):
        other.complete(other.submit())
    monkeypatch.setattr(shared_values, "lock_organization", lock)
    with shop.database.write() as session:
        assert remove_details(session, now() + LATE, 100) == 1
    assert [each["job_id"] for each in read_stored(shop, Execution)] == [other.job_id]


def test_executions_whose_details_went_earlier_share_too(
    shop: Shop, cleaner: Cleaner, executions: list[Execution]
) -> None:
    removed_at = now() - timedelta(days=3)
    gone = {"details_removed_at": removed_at, "pipeline_yaml": ""}
    with shop.database.write() as session:
        session.execute(update(Execution).where(Execution.id == executions[0].id).values(gone))
    cleaner.clean_up(now() + LATE)
    found = shop.content(executions[0])
    assert found["shared_id"] is not None
    assert found["details_removed_at"] == removed_at


def test_bills_and_sums_stay_as_they_were(shop: Shop, cleaner: Cleaner, executions: list[Execution]) -> None:
    other = shop.add_job("other")
    other.complete(other.submit())
    bills, sums = read_bills(shop), [sum_up(shop), sum_up(shop, job_id=shop.job_id), sum_up(shop, job_id="unknown")]
    assert [each.summary.amounts["executions"] for each in sums] == [5, 4, 0]
    cleaner.clean_up(now() + LATE)
    stored = read_stored(shop, ExecutionBill)
    assert len(stored) == 3
    assert {each[name] for each in stored for name in SHARED_OF_BILLS} == {""}
    assert read_bills(shop) == bills
    again = [sum_up(shop), sum_up(shop, job_id=shop.job_id), sum_up(shop, job_id="unknown")]
    assert [(each.summary, each.groups) for each in again] == [(each.summary, each.groups) for each in sums]
    shop.delete_job()
    assert asdict(sum_up(shop).summary) == asdict(sums[0].summary)  # bills outlive their job


def test_versions_before_the_current_one_share_their_columns(
    shop: Shop, cleaner: Cleaner, executions: list[Execution]
) -> None:
    before, tables = read_versions(shop), read_tables(shop)
    tried = cleaner.clean_up(now() + LATE, dry_run=True)
    assert read_stored(shop, DatasetVersion) == []
    done = cleaner.clean_up(now() + LATE)
    for each in (tried, done):
        assert each.removed["repeated columns of versions"].count == 3
    stored = read_stored(shop, DatasetVersion)
    assert [each["files"] for each in stored] == [["/0/part-0"]] * 3
    assert {len(each["columns"]) for each in stored} == {0}
    assert [each["locations"] for each in stored] == [each["locations"] for each in before[:3]]
    assert (read_versions(shop), read_tables(shop)) == (before, tables)
    assert None not in tables
    assert cleaner.clean_up(now() + LATE).removed["repeated columns of versions"].count == 0


def test_a_shared_version_is_restored_as_it_was(shop: Shop, cleaner: Cleaner, executions: list[Execution]) -> None:
    cleaner.clean_up(now() + LATE)
    with shop.database.write() as session:
        datasets = DatasetRepository(session, shop.organization_id)
        dataset = datasets.get(shop.reload(executions[0]).dataset_id or "")
        restored = datasets.restore(dataset, list_versions(session, dataset)[-1])
        assert restored.shared_id is None
    first, *_, last = read_versions(shop)
    assert last["restored_from"] == first["number"] == 1
    for name in ("columns", "format", "files", "locations", "keys", "partition_by"):
        assert last[name] == first[name]
    assert last["files"] == [f"{last['locations'][0]}/part-0"]


def test_shared_values_go_with_the_last_row_that_has_them(
    shop: Shop, cleaner: Cleaner, executions: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_module, "SHARED", {**versions_module.SHARED, "row_count": None})
    with shop.database.write() as session:
        session.execute(update(DatasetVersion).where(DatasetVersion.number == 1).values(row_count=7))
    cleaner.clean_up(now() + LATE)
    assert count_shared(shop) == 4  # of the executions, of the bills, and two of the versions
    with shop.database.write() as session:
        dataset = session.scalars(select(Dataset)).one()
        dataset.retained_versions = 3
        apply_retention(session, dataset, now(), now())
    assert count_shared(shop) == 3
    assert [each["row_count"] for each in read_versions(shop)] == [3, 3, 3]
    shop.delete_job()
    assert count_shared(shop) == 1  # that of the bills


def test_trials_and_own_names_are_not_shared(shop: Shop, cleaner: Cleaner) -> None:
    found = [shop.submit() for _ in range(3)]
    for number, each in enumerate(found):
        shop.complete(each, spark_application_name=f"run {number}")
    cleaner.clean_up(now() + LATE)
    stored = read_stored(shop, Execution)
    assert {each["metrics"]["spark_application_name"] for each in stored} == {"run 0", "run 1"}
    assert len({each["shared_id"] for each in stored}) == 1
