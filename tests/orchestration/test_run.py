"""Executions as Dagster runs: steps, metadata, failures, and how a cancel ends them."""

from __future__ import annotations

import pytest

from core.infra.database import Database
from core.infra.pidfile import list_alive
from core.tables import DatasetVersion, Execution, Project
from tests.support.processes import command_line, descendants
from tests.support.service import GATED_CRAWL, PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until
from tests.support.site import PAGE, GatedSite

NAMES = ("fetch", "wgetJoin", "extract", "write_output")
EVENTS = """query ($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
  ... on MessageEvent { message stepKey eventType }
  ... on ExecutionStepOutputEvent { metadataEntries { ...Entry } }
  ... on MaterializationEvent { assetKey { path } metadataEntries { ...Entry } }
  ... on ExecutionStepFailureEvent { error { message stack } failureMetadata { metadataEntries { ...Entry } } }
  ... on LogsCapturedEvent { fileKey }
} } } }
fragment Entry on MetadataEntry { label
  ... on IntMetadataEntry { intValue }
  ... on PathMetadataEntry { path }
  ... on UrlMetadataEntry { url }
  ... on MarkdownMetadataEntry { mdStr }
  ... on TextMetadataEntry { text }
  ... on TableMetadataEntry { table { records } }
  ... on TableSchemaMetadataEntry { schema { columns { name type } } } }"""
OUTPUT = "query ($key: [String!]!) { capturedLogs(logKey: $key) { stdout stderr } }"


@pytest.fixture
def job(service: Service, site: GatedSite) -> Job:
    return service.make_job(GATED_CRAWL.format(url=site.url))


@pytest.mark.gate
@pytest.mark.long
def test_a_run_shows_stages_and_materializes_the_jobs_asset(service: Service, site: GatedSite, job: Job) -> None:
    site.open()
    execution = service.complete(job, seconds=120)
    run = ended_run(service, execution)
    assert run["status"] == "SUCCESS"
    steps = [step["stepKey"] for step in run["stepStats"]]
    assert [step.partition(".")[2] for step in steps] == ["start", *NAMES, "publish"]
    tags = {tag["key"]: tag["value"] for tag in run["tags"]}
    assert (tags["spindle/execution"], tags["spindle/job"]) == (execution, "rows")
    assert len([name for name in tags if not name.startswith("dagster/")]) == 3
    events = service.graphql(EVENTS, run=run["runId"])["logsForRun"]["events"]
    output = metadata(next(e for e in events if is_step(e, NAMES[-1]) and "metadataEntries" in e))
    assert output["rows"]["intValue"] == 2
    asset = next(event for event in events if "assetKey" in event)
    assert asset["assetKey"]["path"] == [tags["spindle/project"], "rows"]
    assert metadata(asset)["dagster/row_count"]["intValue"] == 2
    assert metadata(asset)["dagster/column_schema"]["schema"]["columns"] == [{"name": "title", "type": "string"}]
    assert metadata(asset)["preview"]["table"]["records"] == ['{"title": "Gate"}', '{"title": "Gate"}']
    with service.database() as database, database.read() as session:
        found = session.get_one(Execution, execution)
        assert found.run_id == run["runId"]
        published = session.query(DatasetVersion).filter_by(execution_id=execution).one()
        assert published.row_count == 2
    assert metadata(asset)["engine"]["text"] == "local"
    assert metadata(asset)["CPU seconds"]["intValue"] >= 0
    assert metadata(asset)["driver memory (bytes)"]["intValue"] > 50 * 2**20
    assert metadata(asset)["network (bytes)"]["intValue"] == 3 * len(PAGE)
    check_measured(service, job, execution, published.size_bytes or 0)


def check_measured(service: Service, job: Job, execution: str, written: int) -> None:
    """What a real execution used, the same in every place that tells it."""
    found = service.get(f"{job.path}/executions/{execution}/metrics")
    used, work = found["metrics"]["infrastructure"], found["metrics"]["execution"]
    status = service.status(job, execution)
    assert 0 < used["cpuSeconds"] < 1000
    assert used["memoryGbHours"] > 0.02 * work["durationSeconds"] / 3600  # whole seconds: 0.5 counts as 1
    assert used["storageWriteGb"] == written / 1e9
    assert used["networkTransferGb"] == 3 * len(PAGE) / 1e9
    assert (work["recordsProcessed"] >= 2, work["tasksCompleted"] > 0) == (True, True)
    assert (found["cloudProvider"], found["metrics"]["costs"]["totalCost"]) == ("local", 0)
    assert abs(work["durationSeconds"] - status["executionTimeSeconds"]) <= 1
    task = service.get(f"{job.path}/tasks/{service.get(job.path)['taskIds'][0]}/metrics")
    assert task["totalCpuTimeSeconds"] == round(used["cpuSeconds"])
    assert task["durationSeconds"] == work["durationSeconds"]
    assert task["executorCount"] == 0
    summary = service.get(f"{job.path}/metrics")["summary"]
    assert (summary["totalExecutions"], summary["totalDataProcessedGb"]) == (1, work["dataVolumeGb"])


@pytest.mark.long
def test_a_failed_check_keeps_the_published_version(service: Service, site: GatedSite) -> None:
    site.open()
    job = service.make_job(GATED_CRAWL.format(url=site.url) + "checks: [{check: row_count, min: '${LEAST}'}]\n")
    first, second = (service.execute(job, {"parameters": {"LEAST": least}}) for least in (2, 3))
    published = service.wait(job, first, seconds=120)
    assert [(each["check"], each["passed"]) for each in published["progress"]["checks"]] == [
        ("row_count at least 2", True)
    ]
    extract = published["progress"]["stages"][2]
    assert extract["selectors"] == [{"column": "title", "selector": "h1", "pages": 2, "empty": 0, "unfit": 0}]
    events = service.graphql(EVENTS, run=ended_run(service, first)["runId"])["logsForRun"]["events"]
    shown = next(e for e in events if is_step(e, NAMES[2]) and "metadataEntries" in e)
    assert '"pages": 2' in metadata(shown)["selectors"]["table"]["records"][0]
    failed = service.wait(job, second, seconds=120)
    sentence = "line 5: check row_count: the output has 2 rows, and should have at least 3"
    assert (failed["status"], failed["errorMessage"]) == ("FAILED", sentence)
    assert [each["message"] for each in failed["progress"]["checks"]] == [sentence.rpartition(": ")[2]]
    with service.database() as database, database.read() as session:
        versions = session.query(DatasetVersion).filter(DatasetVersion.execution_id.in_([first, second])).all()
    assert [version.execution_id for version in versions] == [first]


@pytest.mark.long
def test_links_that_are_gone_are_warnings_of_the_log_and_the_status(service: Service, site: GatedSite) -> None:
    site.open()
    job = service.make_job(GATED_CRAWL.format(url=site.url).replace('"ul li a"', '"${LINKS:-ul li a}", Inner'))
    service.complete(job, seconds=120)
    execution = service.execute(job, {"parameters": {"LINKS": "a.nxt"}})
    status = service.wait(job, execution, seconds=120)
    empty = "line 3: wgetJoin: selector a.nxt found nothing on 1 of 1 page"
    dropped = "the output has 0 rows, fewer than half of the last version's 2"
    assert status["status"] == "COMPLETED"
    warnings = [each for stage in status["progress"]["stages"] for each in stage["warnings"]]
    assert warnings == [empty, dropped]
    lines = service.get(f"{job.path}/executions/{execution}/logs?tail=1000")["logs"]
    assert [sum(sentence in line for line in lines) for sentence in warnings] == [1, 1]


@pytest.mark.long
def test_a_failed_stage_alone_shows_the_sentence_and_where_it_failed(service: Service) -> None:
    job = service.make_job(GATED_CRAWL.format(url="http://127.0.0.1:9/"))
    execution = service.execute(job)
    status = service.wait(job, execution, seconds=120)
    assert status["status"] == "FAILED"
    run = ended_run(service, execution)
    assert [step["status"] for step in run["stepStats"]].count("FAILURE") == 1
    events = service.graphql(EVENTS, run=run["runId"])["logsForRun"]["events"]
    (failed,) = [event for event in events if "error" in event]
    assert status["errorMessage"] in failed["error"]["message"]
    assert failed["error"]["stack"] == []
    shown = {entry["label"]: entry for entry in failed["failureMetadata"]["metadataEntries"]}
    assert shown["execution"]["text"] == execution
    assert shown["code"]["text"] == "pipeline-failed"
    assert shown["line"]["intValue"] == 3
    assert "stage: wgetJoin" in shown["YAML"]["mdStr"]
    assert shown["page"]["url"] == "http://127.0.0.1:9/"
    assert shown["log"]["url"] == f"{service.ui_url}/runs/{run['runId']}?logType=stderr"
    assert status["errorMessage"] in read_output(service, run["runId"])["stderr"]


@pytest.mark.long
def test_the_output_of_a_run_is_that_of_its_driver_while_it_runs(service: Service, site: GatedSite) -> None:
    pipeline = GATED_CRAWL.format(url=site.url) + "  - {stage: 'python_row_transform:show'}\n"
    job = service.make_job(pipeline)
    agent = service.get(job.path)["agentId"]
    code = "def show(row):\n    print('the title is', row['title'])\n    return {**row, 'price': 1 / 0}\n"
    service.post(f"/agents/{agent}/python-extensions", {"extensionType": "row_transform", "function": code})
    execution = service.execute(job)
    site.wait_for_visitor()
    run = service.runs(execution)[0]["runId"]
    wait_until(lambda: "INFO planned" in read_output(service, run)["stderr"], PATIENCE_SECONDS, every=POLL_SECONDS)
    site.open()
    assert service.wait(job, execution, seconds=120)["status"] == "FAILED"
    assert ended_run(service, execution)["status"] == "FAILURE"
    output = read_output(service, run)
    assert output["stdout"].count("[row function show] the title is Gate\n") == 2
    assert "[row function show] ZeroDivisionError: division by zero" in output["stdout"]
    assert "ERROR failed" in output["stderr"]


def read_output(service: Service, run: str) -> dict[str, str]:
    """Return what the UI shows as stdout and stderr of the run."""
    events = service.graphql(EVENTS, run=run)["logsForRun"]["events"]
    keys = [event["fileKey"] for event in events if "fileKey" in event]
    if not keys:
        return {"stdout": "", "stderr": ""}
    logs = service.graphql(OUTPUT, key=[run, "compute_logs", keys[0]])["capturedLogs"]
    return {name: logs[name] or "" for name in ("stdout", "stderr")}


@pytest.mark.gate
@pytest.mark.long
def test_cancelling_ends_the_drivers_processes_then_frees_the_slot_and_a_retry_runs_to_the_end(
    service: Service, site: GatedSite
) -> None:
    job = service.make_job(f"{GATED_CRAWL.format(url=site.url)}spindle: {{engine: spark}}\n")
    execution = service.execute(job)
    site.wait_for_visitor()
    family = list_drivers_family(service, execution)
    with service.client() as client, service.database() as database:
        cancelled = client.delete(f"{job.path}/executions/{execution}").json()
        assert count_slots(database, job) == 1
        assert cancelled["status"] == "FAILED"
        assert cancelled["errorMessage"].startswith("The execution was cancelled.")
        wait_until(lambda: not any(command_line(pid) for pid in family), PATIENCE_SECONDS)
        wait_until(lambda: count_slots(database, job) == 0, PATIENCE_SECONDS)
    assert_gone(service, execution, "CANCELED")
    site.open()
    service.post(f"{job.path}/executions/{execution}/retry", {})
    assert service.wait(job, execution, seconds=120)["status"] == "COMPLETED"
    wait_until(lambda: service.runs(execution)[0]["status"] == "SUCCESS", PATIENCE_SECONDS, every=POLL_SECONDS)
    assert len(service.runs(execution)) == 2


@pytest.mark.long
def test_deleting_the_project_ends_driver_and_run(service: Service, site: GatedSite, job: Job) -> None:
    execution = service.execute(job)
    site.wait_for_visitor()
    with service.client() as client:
        assert client.delete(f"/projects/id/{job.project_id}").is_success
    assert_gone(service, execution, "CANCELED")


def list_drivers_family(service: Service, execution: str) -> list[int]:
    """The driver, its JVM and its workers."""
    leader = int(next((service.data / "drivers").glob(f"*.{execution}.1")).read_text())
    family = [leader, *descendants(leader)]
    assert len(family) >= 3
    return family


def count_slots(database: Database, job: Job) -> int:
    with database.read() as session:
        return session.get_one(Project, job.project_id).active_executions


def assert_gone(service: Service, execution: str, status: str) -> None:
    """The run has ended with this status, and no driver is left."""
    assert ended_run(service, execution)["status"] == status
    wait_until(lambda: not list_alive(service.data / "drivers"), PATIENCE_SECONDS)


def ended_run(service: Service, execution: str) -> Json:
    wait_until(
        lambda: service.runs(execution)[0]["status"] in ("SUCCESS", "FAILURE", "CANCELED"),
        PATIENCE_SECONDS,
        every=POLL_SECONDS,
    )
    return service.runs(execution)[0]


def is_step(event: Json, name: str) -> bool:
    return (event.get("stepKey") or "").endswith(f".{name}")


def metadata(event: Json) -> Json:
    return {entry["label"]: entry for entry in event["metadataEntries"]}
