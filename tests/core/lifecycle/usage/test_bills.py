"""What an execution used and cost: frozen when it ends, added up exactly, kept whatever is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import select

from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.lifecycle.executions.reports import cancel
from core.lifecycle.executions.states import Trigger
from core.lifecycle.executions.transitions import move
from core.lifecycle.metrics.totals import Overview, add_costs, summarize
from core.lifecycle.tasks.repository import TaskRepository
from core.lifecycle.usage.bills import compute_costs, get_bill
from core.lifecycle.usage.periods import Period
from core.lifecycle.usage.prices import Rates
from core.lifecycle.usage.usage import MAX_AMOUNT, Usage
from core.tables import Execution, ExecutionBill
from tests.support.cases import each_case
from tests.support.shop import Shop, make_shop

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRICES = """\
currency: USD
providers:
  aws:
    source: a test
    date: 2026-03-01
    regions:
      us-east-1:
        instances: {m5.large: 0.096, m5.xlarge: 0.192}
        readPerGb: 0.01
        writePerGb: 0.023
        networkPerGb: 0.09
"""
MEASURED = {
    "driverCpuSeconds": 12.5,
    "executorCpuSeconds": 30.25,
    "memoryByteSeconds": 9e12,
    "bytesRead": 2_000_000_000,
    "bytesWritten": 1_000_000_001,
    "networkBytes": 500_000_000,
    "pages": 40,
    "tasksCompleted": 8,
    "executorSeconds": 1800,
}
REPORT = {
    "duration_seconds": 3600,
    "records_processed": 40,
    "total_cpu_time_seconds": 43,
    "driver_memory_used_bytes": 10**9,
    "executor_memory_used_bytes": 2 * 10**9,
    "executor_count": 2,
    "metrics": MEASURED,
}


def set_prices(settings: Settings, table: str) -> Settings:
    path = settings.data / f"{sha256(table.encode()).hexdigest()}.yaml"
    path.write_text(table)
    chosen = {"cloud_provider": "aws", "cloud_region": "us-east-1"}
    machines = {"driver_instance_type": "m5.large", "executor_instance_type": "m5.xlarge"}
    return settings.replace(prices=path, **chosen, **machines)


@pytest.fixture
def shop(settings: Settings) -> Iterator[Shop]:
    priced = set_prices(settings, PRICES)
    database = open_database(priced)
    yield make_shop(priced, database)
    database.close()


def bill(shop: Shop, execution: Execution) -> ExecutionBill:
    with shop.database.read() as session:
        return get_bill(session, session.get_one(Execution, execution.id))


def totals(shop: Shop, start: str = "2026-03-01", end: str = "2026-03-31", **chosen: Any) -> Overview:
    with shop.database.read() as session:
        return summarize(session, shop.organization_id, Period.from_texts(start, end, START), **chosen)


def finished(shop: Shop, at: datetime = START, **fields: Any) -> Execution:
    execution = shop.submit()
    shop.complete(execution, completed_at=at, **(REPORT | fields))
    return execution


def test_an_end_makes_the_bill(shop: Shop) -> None:
    found = bill(shop, finished(shop))
    assert (found.seconds, found.cpu_ms, found.memory_mb_seconds) == (3600, 42_750, 9_000_000)
    assert (found.bytes_read, found.bytes_written, found.network_bytes) == (2 * 10**9, 10**9 + 1, 5 * 10**8)
    assert (found.records, found.tasks, found.executor_count) == (40, 8, 2)
    assert (found.driver_cost, found.executors_cost) == (96_000, 96_000)
    assert (found.read_cost, found.write_cost, found.network_cost) == (20_000, 23_000, 45_000)
    assert (found.provider, found.driver_instance, found.executor_instance) == ("aws", "m5.large", "m5.xlarge")


def test_later_prices_do_not_change_a_bill(shop: Shop) -> None:
    ended, running = finished(shop), shop.submit()
    shop.report(running, "RUNNING", **REPORT)
    dearer = Database(shop.database.engine, set_prices(shop.settings, PRICES.replace("0.096", "7")))
    with closing(dearer), dearer.read() as session:
        assert get_bill(session, session.get_one(Execution, ended.id)).driver_cost == 96_000
        assert get_bill(session, session.get_one(Execution, running.id)).driver_cost == 7_000_000


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED"])
def test_failed_and_cancelled_executions_are_billed_by_their_last_report(shop: Shop, end: str) -> None:
    execution = shop.submit()
    shop.report(execution, "RUNNING", **REPORT)
    if end == "FAILED":
        shop.report(execution, "FAILED")
    else:
        cancel(shop.database, shop.organization_id, execution.id, "Stopped.")
    assert bill(shop, execution).cpu_ms == 42_750
    shop.report(execution, "COMPLETED", metrics={"driverCpuSeconds": 1, "executorCpuSeconds": 1})
    assert bill(shop, execution).cpu_ms == 42_750, "late reports change nothing"
    today = Period(START - timedelta(days=99999), START + timedelta(days=99999))
    with shop.database.read() as session:
        assert summarize(session, shop.organization_id, today).summary.amounts["executions"] == 1


def test_a_report_with_only_the_specified_fields_is_accepted(shop: Shop) -> None:
    execution = finished(shop, metrics=None, output_file_size_bytes=77)
    found = bill(shop, execution)
    assert (found.cpu_ms, found.memory_mb_seconds) == (43_000, 3 * 10**3 * 3600)
    assert (found.bytes_written, found.executor_seconds) == (77, 7200)


@each_case("value", [-5, 10**300, float("inf"), float("nan"), "12", None, True, [], {"a": 1}])
def test_invalid_numbers_in_a_report_are_still_billed(shop: Shop, value: Any) -> None:
    execution = finished(shop, metrics=dict.fromkeys(MEASURED, value), duration_seconds=-1, records_processed=2**62)
    found = bill(shop, execution)
    amounts = (found.seconds, found.cpu_ms, found.memory_mb_seconds, found.bytes_read, found.network_bytes)
    assert all(0 <= amount <= MAX_AMOUNT for amount in amounts)
    assert found.records == MAX_AMOUNT


def test_the_same_numbers_everywhere(shop: Shop) -> None:
    execution = finished(shop)
    with shop.database.read() as session:
        stored = session.get_one(Execution, execution.id)
        tasks = TaskRepository(session, shop.organization_id)
        task = tasks.get(shop.project_id, shop.job_id, str(stored.task_id)).read_metrics()
        used = Usage.of(stored)
    assert (task["durationSeconds"], task["recordsProcessed"], task["executorCount"]) == (
        used.seconds,
        used.records,
        used.executor_count,
    )
    assert task["totalCpuTimeSeconds"] == round(used.cpu_ms / 1000)
    assert compute_costs(used, Rates()).driver_cost == 0


def test_totals_of_a_period(shop: Shop, other_shop: Shop) -> None:
    for day in (1, 2, 2, 31):
        finished(shop, datetime(2026, 3, day, 23, 59, 59, 999_999, tzinfo=UTC))
    finished(shop, datetime(2026, 4, 1, tzinfo=UTC))
    finished(other_shop, START)
    march = totals(shop)
    assert march.summary.amounts["executions"] == 4
    assert add_costs(march.summary) == 4 * 280_000
    assert [(group.id, group.name, add_costs(group.sums)) for group in march.groups] == [
        (shop.project_id, "Shop", 4 * 280_000)
    ]
    assert totals(shop, "2026-03-02", "2026-03-02").summary.amounts["executions"] == 2
    assert totals(shop, "2026-03-02T23:59:59.999999Z", "2026-03-31T23:59:59Z").summary.amounts["executions"] == 2
    assert totals(shop, "2026-03-03", "2026-03-03").groups == []
    assert totals(shop, project_id="none").groups == []


def test_deleted_executions_stay_in_the_totals(shop: Shop) -> None:
    finished(shop)
    shop.delete_job()
    shop.delete_project()
    found = totals(shop)
    assert [(group.id, group.name) for group in found.groups] == [(shop.project_id, None)]
    assert add_costs(found.summary) == 280_000
    assert totals(shop, "2026-03-01T11:00:00Z", "2026-03-01T13:00:00Z").summary == found.summary


def test_a_bill_and_the_end_are_one_transaction(shop: Shop) -> None:
    execution = shop.submit()

    def end_and_fail() -> None:
        with shop.database.write() as session:
            move(session, session.get_one(Execution, execution.id), Trigger.FAIL)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        end_and_fail()
    with shop.database.read() as session:
        assert session.scalars(select(ExecutionBill)).all() == []
    assert shop.reload(execution).state == "PENDING"


def test_every_attempt_is_paid_for_and_the_execution_counts_once(shop: Shop) -> None:
    execution = shop.submit()
    shop.report(execution, "FAILED", completed_at=START, **REPORT)
    again = shop.retry(execution)
    shop.complete(again, completed_at=START, **(REPORT | {"additional_metrics": {"attempt": 2}}))
    assert totals(shop).summary.amounts["executions"] == 1
    assert add_costs(totals(shop).summary) == 2 * 280_000
