"""`spindle` about jobs, executions and rows: list, logs, cancel, retry, query; and without a server."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from core.infra.database import open_database
from core.infra.storage.protocol import failures_key
from core.lifecycle.executions.reports import record_driver
from core.tables.executions import ExecutionDriver
from tests.cli.test_apply import end_next
from tests.support.api import ROWS, Api
from tests.support.commands import Spindle
from tests.support.service import POLL_SECONDS, wait_until
from tests.support.site import Site
from tests.support.stored import store_text

JOB = "Shop/Shop"
WARM, FORK = ExecutionDriver("spare-1", "warm", 2.5), ExecutionDriver("acme.{}.1", "fork", 0.0)


def test_the_command_and_the_service_name_the_same_versions(api: Api, spindle: Spindle) -> None:
    facts = api.client.get("/").json()
    assert facts["version"] == version("spindle")
    assert spindle("--version").output == f"spindle {facts['version']} (API {facts['apiVersion']})\n"


def test_rows_are_queried_as_a_table_and_as_json(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    job.complete(job.execute(), ROWS)
    sql = "SELECT title, price FROM shop.shop ORDER BY title"
    assert [line.split() for line in spindle("query", sql).output.splitlines()] == [
        ["title", "price"],
        ["kettle", "19.5"],
        ["mug"],
        ["2", "rows"],
    ]
    assert spindle("query", sql, "--limit", 1).output.splitlines()[-1] == "1 row"
    printed = spindle("query", sql, "--json").output
    assert json.loads(printed) == [{"title": "kettle", "price": 19.5}, {"title": "mug", "price": None}]
    refused = spindle("query", "SELECT nope FROM shop.shop")
    assert (refused.exit_code, "nope" in refused.output) == (1, True)


def test_jobs_and_executions_are_listed(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    assert spindle("logs", JOB).exit_code == 1, "there is no execution yet"
    execution = job.execute()
    job.complete(execution, ROWS)
    jobs = [line.split() for line in spindle("list").output.splitlines()]
    assert [line[:3] for line in jobs] == [["Job", "State", "Table"], [JOB, "COMPLETED", "shop.shop"]]
    executions = [line.split() for line in spindle("list", JOB).output.splitlines()]
    assert [line[:2] for line in executions[:2]] == [["Id", "State"], [execution, "COMPLETED"]]
    for driver, shown in ((WARM, "local, warm spare-1, waited 2.5 s"), (FORK, "local, fork, waited 0.0 s")):
        name = driver.name.format(execution)
        with closing(open_database(api.settings)) as database:
            record_driver(database, execution, 1, replace(driver, name=name))
        assert spindle("list", JOB).output.splitlines()[2] == f"    {shown}"
        record = api.get(f"{job.path}/executions/{execution}")
        assert (record["driver"], record["driverSource"]) == (name, driver.source)
        assert record["waitedSeconds"] == driver.waited_seconds
    assert spindle("list", "Shop/none").exit_code == 1


def test_executions_fit_a_terminal_of_80_columns(api: Api, spindle: Spindle, monkeypatch: pytest.MonkeyPatch) -> None:
    job = api.job("Shop")
    sentence = "line 12: check row_count: the output has 2 rows, and should have at least 3 of them in every run"
    job.report(job.execute(), "FAILED", errorMessage=sentence)
    for name, value in {"FORCE_COLOR": "1", "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    lines = spindle("list", JOB).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[3:]).split()) == sentence


def test_a_job_is_executed_with_the_rows_of_a_file(api: Api, spindle: Spindle, tmp_path: Path) -> None:
    job = api.job("Given", pipeline="pipeline: [{stage: load_rows}, {stage: wget, args: [$url]}]")
    (tmp_path / "a.csv").write_text("url,sku\nhttps://shop.example/a,007\nhttps://shop.example/b,\n")
    (tmp_path / "b.jsonl").write_text("{")
    assert spindle("execute", "Given/Given", "--rows", tmp_path / "a.csv").exit_code == 0
    (execution,) = api.get(f"{job.path}/executions")
    assert execution["givenRows"] == 2
    for arguments, problem in (((), "load_rows"), (("--rows", tmp_path / "b.jsonl"), "line 1 is not JSON")):
        refused = spindle("execute", "Given/Given", *arguments)
        assert (refused.exit_code != 0, problem in refused.output) == (True, True)


def test_an_execution_is_cancelled_and_retried(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    execution = job.execute()
    assert spindle("retry", JOB).exit_code == 1, "it has not failed"
    assert spindle("cancel", JOB).output == f"Execution {execution}: CANCELLED\n"
    assert (job.status(execution)["status"], job.status(execution)["state"]) == ("FAILED", "CANCELLED")
    assert spindle("list", JOB).output.splitlines()[1].split()[:2] == [execution, "CANCELLED"]
    assert spindle("list").output.splitlines()[1].split()[:2] == [JOB, "CANCELLED"]
    failed = job.execute()
    job.report(failed, "FAILED", errorMessage="closed")
    assert spindle("retry", JOB, failed).exit_code == 0
    assert api.get(f"{job.path}/executions/{failed}")["attempt"] == 2
    assert spindle("logs", JOB, failed, "--tail", 5).exit_code == 0
    assert spindle("cancel", JOB, "nothing").exit_code == 1


def test_an_execution_without_room_is_refused_or_queued(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    api.post("/pools", {"name": "shop-host", "limit": 1})
    api.put(job.path, {"pools": ["shop-host"]})
    running = job.execute()
    refused = spindle("execute", JOB)
    assert (refused.exit_code, "'shop-host'" in refused.output, "--queue" in refused.output) == (1, True, True)
    queued = spindle("execute", JOB, "--queue").output
    assert "was accepted, and waits for room: pool shop-host." in queued
    assert [each["state"] for each in api.get(f"{job.path}/executions")] == ["QUEUED", "PENDING"]
    assert spindle("cancel", JOB).exit_code == 0
    assert spindle("retry", JOB).exit_code == 1
    assert "waits for room: pool shop-host." in spindle("retry", JOB, "--queue").output
    job.complete(running, ROWS)
    wait = spindle("execute", JOB, "--queue", "--wait", 0)
    assert (wait.exit_code, "has not ended" in wait.output) == (3, True)


def test_a_job_forgets_the_pages_that_it_knows(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    metrics = {"knownPages": {"earlier": None, "written": True}}
    job.complete(job.execute(), ROWS, additionalMetrics=metrics)
    assert spindle("reset", JOB).output == f"{JOB} asks for all pages again; its rows stay.\n"
    assert spindle("reset", "Shop/none").exit_code == 1
    job.complete(job.execute(), ROWS, additionalMetrics=metrics)


def test_an_earlier_version_is_restored(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    refused = spindle("restore", JOB, 1)
    assert (refused.exit_code, "published no table" in refused.output) == (1, True)
    job.complete(job.execute(), ROWS)
    job.complete(job.execute(), ROWS.slice(1))
    assert spindle("restore", JOB, 1).output == f"{JOB} has the rows of version 1 again: version 3, with 2 rows.\n"
    assert spindle("restore", JOB, 9).exit_code == 1


def test_a_table_of_plain_files_has_nothing_to_maintain(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    assert "published no table" in spindle("maintain", JOB).output
    job.complete(job.execute(), ROWS)
    assert spindle("maintain", JOB, "--days", 0).output == f"There is nothing to do for the table of {JOB}.\n"


@pytest.mark.long
def test_versions_are_compared(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    job.complete(job.execute(), pa.table({"title": ["kettle", "mug"], "price": [19.5, None]}))
    refused = spindle("diff", JOB, "--keys", "title")
    assert (refused.exit_code, "has one version" in refused.output) == (1, True)
    job.complete(job.execute(), pa.table({"title": ["pan", "mug"], "price": [5.0, 2.5]}))
    refused = spindle("diff", JOB)
    assert (refused.exit_code, "names no keys" in refused.output) == (1, True)
    lines = spindle("diff", JOB, "--keys", "title").output.splitlines()
    assert lines[0] == f"{JOB}: version 1 → 2, by title"
    assert [line.rstrip().split(maxsplit=2) for line in lines[1:5]] == [
        ["Change", "title", "Values"],
        ["removed", "kettle", "price: 19.5"],
        ["changed", "mug", "price: null → 2.5"],
        ["added", "pan", "price: 5.0"],
    ]
    assert lines[5:] == ["1 added, 1 removed, 1 changed"]
    assert spindle("diff", JOB, 2, 2, "--keys", "title").output.splitlines()[1:] == ["0 added, 0 removed, 0 changed"]
    assert spindle("diff", JOB, 2, 1, "--keys", "title", "--limit", 1).output.splitlines()[3] == "and 2 rows more"
    assert spindle("diff", JOB, 1).exit_code == 2


def test_a_pipeline_without_a_server_knows_its_pages(tmp_path: Path, spindle: Spindle, web: Site) -> None:
    file = tmp_path / "crawl.yaml"
    url = web.serve({"/": "<a href=/a>x</a>", "/a": "<h1>a</h1>", "/b": "<h1>b</h1>"})
    file.write_text(
        f"fetch: {{url: '{url}/'}}\nspindle: {{incremental: true}}\npipeline:\n- {{stage: wgetJoin, args: [a]}}\n"
        "- {stage: extract, args: [{selector: h1, as: name}]}\n"
    )
    rows, options = tmp_path / "rows.csv", ("--cache", tmp_path / "cache", "--append")
    for _ in range(2):
        assert spindle("run", file, "-o", rows, *options).exit_code == 0
    web.pages["/"] += "<a href=/b>x</a>"
    assert spindle("run", file, "-o", rows, *options).exit_code == 0
    assert rows.read_text().split() == ["name", "a", "b"]
    assert dict(web.requests) == {"/": 3, "/a": 1, "/b": 1}


@pytest.mark.long
def test_following_ends_with_the_table_and_its_first_rows(api: Api, spindle: Spindle) -> None:
    ending = Thread(target=end_next, args=(api.job("Shop"), set[str](), "COMPLETED"))
    ending.start()
    followed = spindle("execute", JOB, "--follow")
    ending.join()
    assert followed.exit_code == 0, followed.output
    lines = [line.split() for line in followed.output.splitlines()]
    assert lines[-4:] == [["Table", "shop.shop,", "first", "rows:"], ["title", "price"], ["kettle", "19.5"], ["mug"]]


@pytest.mark.long
def test_waiting_prints_how_the_execution_ended(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    waited = spindle("execute", JOB, "--wait", 0)
    assert (waited.exit_code, "has not ended within 0 s" in waited.output) == (3, True)
    for state, code in (("COMPLETED", 0), ("FAILED", 3)):
        known = {each["executionId"] for each in api.get(f"{job.path}/executions")}
        ending = Thread(target=end_next, args=(job, known, state))
        ending.start()
        waited = spindle("execute", JOB, "--wait", 30)
        ending.join()
        assert waited.exit_code == code, waited.output
        assert waited.output.startswith(state.title())
    assert spindle("execute", JOB, "--wait", 5, "--follow").exit_code == 2


def test_another_folder_has_no_server(spindle: Spindle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("SPINDLE_URL", "SPINDLE_KEY"):
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    for arguments in (("list",), ("export",), ("list", "--key", "sk_any")):
        missing = spindle(*arguments)
        assert (missing.exit_code, "./.spindle" in missing.output) == (1, True), missing.output


def test_failed_pages_are_listed_with_their_counts(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    execution = job.execute()
    assert spindle("failures", JOB).output == "No page has failed.\n"
    counts = [{"status": 404, "reason": "http-status", "pages": 1500, "addresses": ["http://shop.test/0"]}]
    page = {"status": 404, "reason": "http-status", "message": "the server answered 404", "stage": "s01_fetch"}
    pages = [{"url": f"http://shop.test/{number}", "line": 2, "attempts": 1, **page} for number in range(1200)]
    lines = "".join(f"{json.dumps(line)}\n" for line in [{"counts": counts}, *pages])
    store_text(api.settings, failures_key(api.organization_id, execution, 1), lines)
    printed = spindle("failures", JOB, execution, "--limit", 1100).output.splitlines()
    assert printed[0] == "1,500 pages failed."
    assert printed[2].split() == ["1,500", "404", "http-status"]
    assert printed[4].split()[:4] == ["http://shop.test/0", "404", "http-status", "2"]
    assert len(printed) == 4 + 1100
    assert printed[-1].rstrip().endswith("the server answered 404")


def test_the_end_of_an_execution_names_its_failed_pages(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    requests = [
        {"status": 200, "reason": None, "pages": 28, "retries": 1, "cached": 2, "bytes": 2_000_000, "seconds": 1.5},
        {
            "status": 500,
            "reason": "http-status",
            "pages": 12,
            "addresses": ["http://shop.test/1", "http://shop.test/2"],
        },
    ]

    def fail() -> None:
        wait_until(lambda: bool(api.get(f"{job.path}/executions")), 20, every=POLL_SECONDS)
        execution = api.get(f"{job.path}/executions")[0]["executionId"]
        job.report(execution, "RUNNING")
        progress = {"fraction": 1, "stages": [], "requests": requests}
        job.report(execution, "FAILED", errorMessage="closed", additionalMetrics={"progress": progress})

    ending = Thread(target=fail)
    ending.start()
    followed = spindle("execute", JOB, "--follow")
    ending.join()
    lines = [line.split() for line in followed.output.splitlines()]
    assert ["200", "28", "1", "2", "2.0", "MB", "1.5"] in lines
    assert "12 of 40 pages failed:" in followed.output
    assert "12 x 500 http-status: http://shop.test/1, http://shop.test/2 and 10 more" in followed.output
