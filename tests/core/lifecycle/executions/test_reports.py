"""Reports of the compute side: heartbeats, fencing, and what a report may carry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError
from sqlalchemy import update

from core.errors import BadInput, NotFound
from core.lifecycle.executions.payload import CompletionPayload
from core.lifecycle.executions.reports import cancel, claim, record_report
from core.lifecycle.executions.repository import ExecutionRepository, Status, list_claimed
from core.tables import Execution, Job, Task
from pipelines.contract.request import PlannedStep
from tests.support.cases import each_case
from tests.support.shop import Shop


def status(shop: Shop, execution: Execution) -> Status:
    with shop.database.read() as session:
        return Status.from_record(ExecutionRepository(session, shop.organization_id).load_record(execution))


def test_a_heartbeat_updates_time_progress_and_metrics(shop: Shop) -> None:
    execution = shop.submit()
    shop.report(execution, "RUNNING", additional_metrics={"attempt": 1, "progress": {"fraction": 0.0}})
    first = shop.reload(execution)
    shop.report(
        execution, "RUNNING", records_processed=10, additional_metrics={"attempt": 1, "progress": {"fraction": 0.5}}
    )
    second = shop.reload(execution)
    assert first.heartbeat_at is not None
    assert second.heartbeat_at is not None
    assert second.heartbeat_at > first.heartbeat_at
    assert second.started_at == first.started_at
    assert second.progress == {"fraction": 0.5}
    assert second.metrics["records_processed"] == 10


@pytest.mark.parametrize("attempt", [1, 3])
@pytest.mark.parametrize("report", ["RUNNING", "COMPLETED", "FAILED"])
def test_a_report_of_another_attempt_changes_nothing(shop: Shop, report: str, attempt: int) -> None:
    execution = shop.submit()
    with shop.database.write() as session:
        session.execute(update(Execution).values(attempt=2))
    before = shop.content(execution)
    assert shop.report(execution, report, additional_metrics={"attempt": attempt, "progress": {}}) == "PENDING"
    assert shop.content(execution) == before
    assert shop.active() == 1


def test_the_status_view(shop: Shop) -> None:
    execution = shop.submit()
    assert status(shop, execution) == Status(execution.id, "PENDING", None, None, None, None, None)
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    shop.report(execution, "RUNNING", started_at=start, spark_ui_url="http://127.0.0.1:4040", executor_count=2)
    end = start + timedelta(seconds=90)
    shop.report(execution, "FAILED", error_message="The site is gone.", completed_at=end)
    assert status(shop, execution) == Status(execution.id, "FAILED", start, end, 90, "The site is gone.", 2)
    assert shop.reload(execution).spark_ui_url == "http://127.0.0.1:4040"


@pytest.mark.parametrize(
    ("stages", "reached"),
    [
        ([{"key": "s01_fetch", "state": "COMPLETED"}, {"key": "s02_dedup", "state": "RUNNING"}], "dedup (line 3)"),
        ([{"key": ["s02_dedup"], "state": "RUNNING"}, 7], None),
        ("s02_dedup", None),
    ],
)
def test_a_cancel_names_the_stage_that_was_running(shop: Shop, stages: object, reached: str | None) -> None:
    execution = shop.submit()
    steps = [PlannedStep("s02_dedup", "dedup title", 2, 3)]
    with shop.database.write() as session:
        session.execute(update(Execution).values(steps=steps))
    shop.report(execution, "RUNNING", additional_metrics={"attempt": 1, "progress": {"stages": stages}})
    cancel(shop.database, shop.organization_id, execution.id, "Stopped.")
    message = "Stopped." if reached is None else f"Stopped. It had reached {reached}."
    shown = status(shop, execution)
    assert (shown.status, shown.error_message) == ("FAILED", message)


def test_a_failure_without_message_says_so(shop: Shop) -> None:
    execution = shop.submit()
    shop.report(execution, "FAILED")
    assert "without saying why" in (status(shop, execution).error_message or "")


def test_equal_times_of_different_zones_agree(shop: Shop) -> None:
    execution = shop.submit()
    tokyo = timezone(timedelta(hours=9))
    shop.report(execution, "RUNNING", started_at=datetime(2026, 3, 1, 21, tzinfo=tokyo))
    assert shop.reload(execution).started_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    naive = CompletionPayload.model_validate(
        {"executionId": "x", "status": "RUNNING", "startedAt": "2026-03-01T12:00:00"}
    )
    assert naive.started_at == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_unknown_and_foreign_executions_get_the_same_answer(shop: Shop, other_shop: Shop) -> None:
    theirs = other_shop.submit()
    places = [
        (shop.organization_id, shop.project_id, shop.job_id, theirs.id),
        (shop.organization_id, other_shop.project_id, other_shop.job_id, theirs.id),
        (None, shop.project_id, shop.job_id, theirs.id),
        (None, shop.project_id, shop.job_id, "unknown"),
        (None, shop.project_id, shop.job_id, "\0"),
    ]
    told: set[str] = set()
    for organization_id, project_id, job_id, execution_id in places:
        payload = CompletionPayload(execution_id=execution_id, status="COMPLETED")
        with pytest.raises(NotFound) as error:
            record_report(shop.database, shop.storage, organization_id, project_id, job_id, payload)
        told.add(error.value.sentence)
    assert told == {"There is no execution with this id."}
    with pytest.raises(NotFound):
        cancel(shop.database, shop.organization_id, theirs.id, "Mine.")
    assert other_shop.reload(theirs).state == "PENDING"


@each_case(
    ("given", "kept"),
    [
        ("https://spark.example:4040/x", "https://spark.example:4040/x"),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("//host", None),
        ("http://[", None),
        ("", None),
    ],
)
def test_only_web_addresses_are_kept(given: str, kept: str | None) -> None:
    payload = {"executionId": "x", "status": "RUNNING", "sparkUiUrl": given}
    assert CompletionPayload.model_validate(payload).spark_ui_url == kept


def test_characters_that_cannot_be_stored_are_replaced(shop: Shop) -> None:
    execution = shop.submit()
    odd = {"attempt": 1, "ratio": float("nan"), "text": "a\0b\ud800", "list": [float("inf")]}
    shop.report(execution, "FAILED", error_message="broke\0n \ud800", additional_metrics=odd)
    stored = shop.reload(execution)
    assert stored.error_message == "broke\ufffdn ?"
    assert stored.metrics["additional"] == {"ratio": None, "text": "a\ufffdb?", "list": [None]}


@each_case(
    "fields",
    [
        {"status": "PAUSED"},
        {"recordsOutput": 2**63},
        {"executorCount": 2**31},
        {"startedAt": "yesterday"},
        {"additionalMetrics": []},
        {"executionId": None},
    ],
)
def test_malformed_reports_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CompletionPayload.model_validate({"executionId": "x", "status": "RUNNING", **fields})


def test_status_is_read_in_any_case() -> None:
    assert CompletionPayload.model_validate({"executionId": "x", "status": "completed", "new": 1}).status == "COMPLETED"


def test_one_run_claims(shop: Shop) -> None:
    execution = shop.submit()
    assert claim(shop.database, execution.id, 2, "run") is None
    taken = claim(shop.database, execution.id, 1, "run-1")
    assert (taken.run_id, taken.state) == ("run-1", "PENDING")
    assert claim(shop.database, execution.id, 1, "run-2") is None
    assert claim(shop.database, execution.id, 1, "run-1") is None
    with shop.database.read() as session:
        assert [each.id for each in list_claimed(session)] == [execution.id]
    shop.complete(execution)
    with shop.database.read() as session:
        assert list_claimed(session) == []


def test_an_ended_execution_is_not_claimed(shop: Shop) -> None:
    execution = shop.submit()
    cancel(shop.database, shop.organization_id, execution.id, "Stopped.")
    assert claim(shop.database, execution.id, 1, "run") is None
    assert claim(shop.database, "unknown", 1, "run") is None


def test_what_is_impossible_in_a_report_is_dropped_with_a_warning(shop: Shop) -> None:
    execution = shop.submit()
    payload = CompletionPayload.model_validate(
        {
            "executionId": execution.id,
            "jobId": shop.job_id,
            "status": "FAILED",
            "startedAt": "9999-12-31T23:59:59-05:00",
            "completedAt": "0001-01-01T00:00:00+05:00",
            "recordsOutput": -1,
            "executorCount": 3,
            "durationSeconds": 90,
            "sparkApplicationName": "crawl",
        }
    )
    record_report(shop.database, shop.storage, shop.organization_id, shop.project_id, shop.job_id, payload)
    stored, shown = shop.reload(execution), status(shop, execution)
    assert (stored.state, stored.metrics["executor_count"], "records_output" in stored.metrics) == ("FAILED", 3, False)
    assert [text.split("'")[1] for text in stored.metrics["warnings"]] == ["recordsOutput", "startedAt", "completedAt"]
    assert (shown.execution_time_seconds, shown.spark_application_name) == (90, "crawl")
    assert stored.completed_at is not None
    assert stored.started_at == stored.completed_at - timedelta(seconds=90)
    shop.report(shop.submit(), "FAILED", duration_seconds=2**62)


def test_a_report_that_names_another_job_is_refused(shop: Shop) -> None:
    execution = shop.submit()
    with pytest.raises(BadInput) as error:
        shop.report(execution, "COMPLETED", job_id="another")
    assert error.value.details[0].path == "jobId"
    assert shop.report(execution, "COMPLETED", job_id="") == "COMPLETED"


def test_job_and_task_show_when_their_state_changed(shop: Shop) -> None:
    def read_times() -> tuple[datetime, datetime]:
        with shop.database.read() as session:
            task = session.get_one(Task, execution.task_id)
            return session.get_one(Job, shop.job_id).updated_at, task.updated_at

    execution = shop.submit()
    for state in ("RUNNING", "FAILED"):
        before = read_times()
        shop.report(execution, state)
        after = read_times()
        assert after[0] > before[0]
        assert after[1] > before[1]
