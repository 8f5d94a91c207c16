"""Runs that continue the execution of another run, after the job's agent was changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus, EventLogEntry

from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.lifecycle.executions.reports import fail
from core.lifecycle.outlines.outlines import JobOutline, load_outline
from core.tables import Execution
from orchestration.runs import build_run_job, open_run_host
from tests.support.shop import PIPELINE, Shop, make_shop

STAGES = PIPELINE + "  - {stage: limit, args: [1]}\n"
RUN_ID = "0b8f1f3e-5a5e-4ba9-9f0a-6d9ad7d4a0b2"
RESUMED = {"dagster/is_resume_retry": "true"}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("SPINDLE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}")
    migrate(Settings())
    with closing(open_database(Settings())) as database:
        yield make_shop(Settings(), database)


def load(shop: Shop) -> JobOutline:
    with shop.database.read() as session:
        return load_outline(session, shop.job_id)


def fail_execution(shop: Shop) -> Execution:
    execution = shop.submit()
    fail(shop.database, execution.id, "The page has no title.", execution.attempt)
    return execution


def repeat(shop: Shop, execution: Execution, *steps: str) -> tuple[DagsterRunStatus, str]:
    """Execute a run from the failed steps of the execution's run; return its status and its log."""
    outline = load(shop)
    graph = "__".join(outline.key)
    with DagsterInstance.get() as instance:
        job = build_run_job([outline])
        parent = instance.create_run_for_job(job, tags={"spindle/execution": execution.id})
        run = instance.create_run_for_job(job, tags=RESUMED, asset_selection={AssetKey(outline.key)})
        run = run._replace(
            parent_run_id=parent.run_id,
            root_run_id=parent.run_id,
            step_keys_to_execute=[f"{graph}.{step}" for step in steps] or None,
            run_id=RUN_ID,
        )
        instance.add_run(run)
        with open_run_host(shop.settings) as host:
            host.execute_run(RUN_ID, threading.Event())
        stored = instance.get_run_by_id(RUN_ID)
        entries: list[EventLogEntry] = [*instance.all_logs(RUN_ID)]
        return stored.status, "\n".join(each.user_message or each.message for each in entries)


@pytest.mark.long
@pytest.mark.parametrize("steps", [(), ("extract", "write_output", "publish"), ("extract", "gone", "publish")])
def test_changed_stages_are_refused_at_once_with_both_revisions(shop: Shop, steps: tuple[str, ...]) -> None:
    execution = fail_execution(shop)
    shop.write_pipeline(STAGES)
    status, log = repeat(shop, execution, *steps)
    assert status == DagsterRunStatus.FAILURE
    assert "keeps revision 1 of its agent" in log
    assert "now at revision 2, which 'Re-execute all' takes" in log
    with shop.database.read() as session:
        assert session.get_one(Execution, execution.id).attempt == 1


def test_steps_that_do_not_exist_end_the_run_with_a_sentence(shop: Shop) -> None:
    execution = fail_execution(shop)
    status, log = repeat(shop, execution, "gone", "publish")
    assert (status, "'Re-execute all'" in log) == (DagsterRunStatus.FAILURE, True)
