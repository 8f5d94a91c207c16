"""Runs of Dagster that are not kept any longer, beside the executions that REST still shows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from dagster import DagsterInstance, RunsFilter, job
from sqlalchemy import update

from cli.cleanup import clean_up, open_cleaner
from core.infra.settings import Settings
from core.tables import Execution, now
from orchestration.old_runs import ENDED, delete_lost_output
from tests.support.service import PATIENCE_SECONDS, Service, wait_until
from tests.support.site import GatedSite

PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline: [{{stage: extract, args: [{{selector: h1, as: title}}]}}]
"""


@job
def example() -> None:
    """A job without steps."""


def list_run_files(data: Path, run_id: str) -> list[Path]:
    return [path for path in data.joinpath("dagster").rglob("*") if run_id in str(path) and path.is_file()]


@pytest.mark.long
def test_an_execution_outlives_its_run_logs_and_folder(
    service: Service, site: GatedSite, capsys: pytest.CaptureFixture[str]
) -> None:
    site.open()
    settings = Settings(data=service.data)
    job = service.make_job(PIPELINE.format(url=site.url))
    execution = service.complete(job)
    path = f"{job.path}/executions/{execution}"
    before, (run,) = service.get(path), service.runs(execution)
    assert list_run_files(service.data, run["runId"])
    assert service.get(f"{path}/logs")["logs"]
    with service.database() as database, database.write() as session:
        old = {"completed_at": now() - timedelta(days=40), "updated_at": Execution.updated_at}
        session.execute(update(Execution).where(Execution.id == execution).values(old))
    with DagsterInstance.from_config(str(service.data / "dagster")) as instance:  # the run ends after its execution
        wait_until(lambda: instance.get_run_records(RunsFilter([run["runId"]], statuses=ENDED)), PATIENCE_SECONDS)
    with open_cleaner(settings) as cleaner:
        tried = cleaner.clean_up(now() + timedelta(days=40), dry_run=True).removed
        assert tried["runs of Dagster"].bytes > 40_000
        assert list_run_files(service.data, run["runId"])
        done = cleaner.clean_up(now() + timedelta(days=40)).removed
        assert done["runs of Dagster"].count == tried["runs of Dagster"].count
    assert service.runs(execution) == []
    assert list_run_files(service.data, run["runId"]) == []
    with DagsterInstance.from_config(str(service.data / "dagster")) as instance:
        assert not instance.all_logs(run["runId"])
    left = service.get(path)
    assert left["dagsterRunUrl"].endswith(run["runId"])
    times = {"completedAt", "updatedAt", "executionTimeSeconds"}
    assert {name: left[name] for name in left if name not in times} == {
        name: before[name] for name in before if name not in times
    }
    with service.client() as client:
        answer = client.get(f"{path}/logs")
    assert (answer.status_code, answer.json()["details"][0]["code"]) == (404, "not-kept")
    again = service.complete(job)
    assert clean_up(service.data, dry_run=True) == 0
    assert service.get(f"{job.path}/executions/{again}/logs")["logs"]
    printed = capsys.readouterr().out  # the first one is the job's newest no more
    assert ("details of executions" in printed, "logs of executions" in printed) == (True, False)


def test_output_of_runs_that_are_gone_is_deleted(tmp_path: Path) -> None:
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        base = tmp_path / "storage"
        kept = instance.create_run_for_job(example, run_id=str(uuid4())).run_id
        names = [kept, str(uuid4()), "an_asset"]
        for name in names:
            (base / name / "compute_logs").mkdir(parents=True)
        delete_lost_output(instance, now() - timedelta(days=1))
        assert sorted(each.name for each in base.iterdir()) == sorted(names)
        delete_lost_output(instance, now() + timedelta(days=1))
        assert sorted(each.name for each in base.iterdir()) == sorted({kept, "an_asset"})
