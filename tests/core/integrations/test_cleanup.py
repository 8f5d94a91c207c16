"""What a cleanup removes, and what it leaves."""

from __future__ import annotations

import io
import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select
from structlog.testing import capture_logs

from core.definitions.identity.audit import record_action
from core.errors import NotFound
from core.infra.storage.protocol import GIVEN_ROWS, execution_key, executions_key, packages_key
from core.integrations import cleanup
from core.integrations.cleanup import Cleaner
from core.integrations.packages.service import PackageService
from core.lifecycle.executions.leftovers import get_output_path
from core.lifecycle.executions.reports import fail
from core.lifecycle.executions.repository import Status, get_engine
from core.lifecycle.executions.service import ExecutionService
from core.tables import Execution, ExecutionEvent, OutboxMessage, Package, now
from core.tables.executions import COUNTS
from tests.support.shop import Shop

SPEC, SCRATCH, CHECKPOINT = "1/spec.json", "1/scratch/a/b", "1/checkpoints/extract/part-0"
LOG, FAILURES, OUTPUT, DOWNLOAD = "1/driver.log", "1/failures.jsonl", "1/output/part-0", f"files/{'0' * 64}"
FILES = {SPEC, SCRATCH, CHECKPOINT, LOG, FAILURES, DOWNLOAD, GIVEN_ROWS}


@pytest.fixture
def cleaner(shop: Shop) -> Cleaner:
    return Cleaner(shop.settings, shop.database, shop.storage, lambda _cleanup, _before: None)


def submit(shop: Shop) -> Execution:
    """With ten bytes in each file that a driver may leave."""
    execution = shop.submit()
    for name in FILES:
        shop.storage.put(f"{executions_key(shop.organization_id)}/{execution.id}/{name}", io.BytesIO(b"0123456789"))
    return execution


def complete(shop: Shop) -> Execution:
    execution = submit(shop)
    shop.complete(execution)
    shop.storage.put(f"{execution_key(shop.organization_id, execution.id, 1)}/checkpoints/extract/part-0", io.BytesIO())
    return execution


def list_files(shop: Shop, execution: Execution) -> set[str]:
    folder = f"{executions_key(shop.organization_id)}/{execution.id}"
    return {file.key.removeprefix(f"{folder}/") for file in shop.storage.list(folder)}


@pytest.mark.parametrize(
    ("days", "kept"),
    [(6, FILES | {OUTPUT}), (8, {LOG, FAILURES, OUTPUT, DOWNLOAD}), (31, {OUTPUT, DOWNLOAD})],
)
def test_an_ended_execution_keeps_its_row_and_rows(shop: Shop, cleaner: Cleaner, days: int, kept: set[str]) -> None:
    execution = complete(shop)
    before = shop.content(execution)
    cleaner.clean_up(now() + timedelta(days=days))
    assert list_files(shop, execution) == kept
    assert shop.content(execution) == before


def test_an_old_completed_execution_loses_its_details_and_says_so(shop: Shop, cleaner: Cleaner) -> None:
    old, _other, failed = complete(shop), complete(shop), submit(shop)
    fail(shop.database, failed.id, "It failed.")
    newest_of_all = complete(shop)
    service = ExecutionService(shop.database, shop.settings, shop.storage)

    def read(execution: Execution) -> dict[str, Any]:
        return dict(service.get(shop.caller, shop.project_id, shop.job_id, execution.id))

    before = read(old)
    cleaner.clean_up(now() + timedelta(days=29))
    assert read(old) == before
    late = now() + timedelta(days=31)
    assert cleaner.clean_up(late, dry_run=True).removed["details of executions"].count == 2
    assert cleaner.clean_up(late).removed["details of executions"].count == 2
    assert cleaner.clean_up(late).removed["details of executions"].count == 0
    after = read(old)
    lost = {"details_removed_at", "progress", "driver", "metrics"}
    assert {name: after[name] for name in before.keys() - lost} == {name: before[name] for name in before.keys() - lost}
    assert (after["details_removed_at"] is not None, after["progress"]) == (True, {"fraction": 1.0})
    assert Status.from_record(after) == Status.from_record(before)
    assert get_engine(after) == get_engine(before)
    assert get_output_path(after) == get_output_path(before)
    counts = {name: value for name, value in before["metrics"].items() if name in COUNTS}
    assert counts
    assert {name: value for name, value in after["metrics"].items() if name in COUNTS} == counts
    for execution in (failed, newest_of_all):
        assert read(execution)["details_removed_at"] is None
    with shop.database.read() as session:
        assert session.get_one(Execution, old.id).pipeline_yaml == ""
        assert session.get_one(Execution, failed.id).pipeline_yaml


def test_a_dry_run_counts_and_removes_nothing(shop: Shop, cleaner: Cleaner) -> None:
    execution, packages = complete(shop), PackageService(shop.settings, shop.database, shop.storage)
    packages.export(shop.caller)
    at = now() + timedelta(days=31)
    tried = cleaner.clean_up(at, dry_run=True)
    assert list_files(shop, execution) == FILES | {OUTPUT}
    with shop.database.read() as session:
        counts = [len(session.scalars(select(table.id)).all()) for table in (ExecutionEvent, OutboxMessage, Package)]
    assert all(counts)
    assert cleaner.clean_up(at) == tried.__class__(False, tried.removed)
    found = {kind: (each.count, each.bytes) for kind, each in tried.removed.items()}
    assert found["folders of executions"] == (4, 30)
    assert found["logs of executions"] == (2, 20)
    assert found["launches"] == (1, 0)
    assert found["packages"][0] == 1
    assert not any(each.count for each in cleaner.clean_up(at, dry_run=True).removed.values())
    assert list(shop.storage.list(packages_key(shop.organization_id))) == []


def test_the_audit_log_is_kept_for_its_own_time(shop: Shop, cleaner: Cleaner) -> None:
    record_action(shop.database, shop.caller, "create_project", {"id": "1"}, 200)
    days = shop.settings.retention.audit_days
    kept = [cleaner.clean_up(now() + timedelta(days=days + each)).removed["audit entries"].count for each in (-1, 1)]
    assert kept == [0, 1]


def test_what_runs_or_may_be_retried_keeps_all(shop: Shop, cleaner: Cleaner) -> None:
    older, running, newest = submit(shop), submit(shop), submit(shop)
    shop.report(running, "RUNNING")
    for execution in (older, newest):
        fail(shop.database, execution.id, "It failed.")
    at = now() + timedelta(days=400)
    cleaner.clean_up(at)
    assert list_files(shop, older) == {DOWNLOAD}
    assert list_files(shop, running) == list_files(shop, newest) == FILES
    retried = shop.retry(newest)
    cleaner.clean_up(at)
    assert list_files(shop, retried) == FILES
    with shop.database.read() as session:
        assert set(session.scalars(select(OutboxMessage.execution_id))) == {running.id, newest.id}


@pytest.fixture(params=["project", "job"])
def deleted(shop: Shop, request: pytest.FixtureRequest) -> Execution:
    execution = complete(shop)
    shop.delete_project() if request.param == "project" else shop.delete_job()
    return execution


def test_a_deleted_project_or_job_takes_its_files_along(shop: Shop, cleaner: Cleaner, deleted: Execution) -> None:
    cleaner.clean_up(now() + timedelta(hours=23))
    assert list_files(shop, deleted) == FILES | {OUTPUT}
    for days in (2, 4):
        cleaner.clean_up(now() + timedelta(days=days))
    with shop.database.read() as session:
        assert session.scalar(select(Execution.id)) is None
    assert list_files(shop, deleted) == set()


def test_removed_logs_say_so(shop: Shop, cleaner: Cleaner) -> None:
    execution, service = complete(shop), ExecutionService(shop.database, shop.settings, shop.storage)
    place = (shop.caller, shop.project_id, shop.job_id, execution.id)
    options = {"tail": 10, "level": None, "pod_type": "driver"}
    assert service.read_logs(*place, **options) == ["0123456789"]
    ended_at = now() - timedelta(days=40)
    with shop.database.write() as session:
        session.get_one(Execution, execution.id).completed_at = ended_at
    assert service.read_logs(*place, **options) == ["0123456789"]
    cleaner.clean_up(now() + timedelta(days=40))
    for read in (lambda: service.read_logs(*place, **options), lambda: service.list_failed_pages(*place)):
        with pytest.raises(NotFound, match="not kept any longer than 30 days after its end") as gone:
            read()
        assert gone.value.details[0].code == "not-kept"
    assert service.get(*place)["state"] == "COMPLETED"


@pytest.mark.folder
def test_no_empty_folders_are_left(shop: Shop, cleaner: Cleaner) -> None:
    for _ in range(2):
        submitted = submit(shop)
        fail(shop.database, submitted.id, "It failed.")
    with shop.database.write() as session:
        session.execute(delete(Execution))
    cleaner.clean_up(now() + timedelta(days=2))
    assert [each.name for each in shop.settings.data.joinpath("storage").iterdir() if each.name != ".partial"] == []


def test_an_error_of_one_step_leaves_the_others_running(
    shop: Shop, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "ROUND_SECONDS", 0.01)
    monkeypatch.setattr(cleanup, "FIRST_SWEEP_SECONDS", 0)
    stop, maintained = threading.Event(), list[None]()

    def break_down() -> None:
        raise PermissionError("a file of somebody else")

    def maintain() -> None:
        maintained.append(None)
        if len(maintained) == 3:
            stop.set()

    monkeypatch.setattr(cleaner, "collect", break_down)
    monkeypatch.setattr(cleaner._collector, "maintain", maintain)
    with capture_logs() as lines:
        cleaner.run(stop, lambda: True)
    assert len(maintained) == 3
    assert {line["step"] for line in lines if line["event"] == "a step of the cleanup failed"} == {"break_down"}


def test_many_messages_are_deleted_some_at_a_time(
    shop: Shop, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "BATCH", 2)
    for _ in range(5):
        complete(shop)
    late = now() + timedelta(days=8)
    dry, done = cleaner.clean_up(late, dry_run=True), cleaner.clean_up(late)
    assert dry.removed["launches"].count == done.removed["launches"].count == 5
    assert dry.removed["events and deliveries"].count == done.removed["events and deliveries"].count > 5
    with shop.database.read() as session:
        assert session.scalars(select(OutboxMessage)).all() == []
