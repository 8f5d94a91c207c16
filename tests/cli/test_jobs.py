"""`spindle` about jobs, executions and rows: list, logs, cancel, retry, query; and without a server."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.test_apply import end_next
from tests.support.api import ROWS, Api
from tests.support.commands import Spindle

JOB = "Shop/Shop"


def test_the_version_is_that_of_the_package(spindle: Spindle) -> None:
    assert spindle("--version").output == f"spindle {version('spindle')}\n"


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
    assert [line[:2] for line in executions] == [["Id", "State"], [execution, "COMPLETED"]]
    assert spindle("list", "Shop/none").exit_code == 1


def test_an_execution_is_cancelled_and_retried(api: Api, spindle: Spindle) -> None:
    job = api.job("Shop")
    execution = job.execute()
    assert spindle("retry", JOB).exit_code == 1, "it has not failed"
    assert spindle("cancel", JOB).exit_code == 0
    assert job.status(execution)["status"] != "COMPLETED"
    failed = job.execute()
    job.report(failed, "FAILED", errorMessage="closed")
    assert spindle("retry", JOB, failed).exit_code == 0
    assert api.get(f"{job.path}/executions/{failed}")["attempt"] == 2
    assert spindle("logs", JOB, failed, "--tail", 5).exit_code == 0
    assert spindle("cancel", JOB, "nothing").exit_code == 1


def test_following_ends_with_the_table_and_its_first_rows(api: Api, spindle: Spindle) -> None:
    ending = Thread(target=end_next, args=(api.job("Shop"), set[str](), "COMPLETED"))
    ending.start()
    followed = spindle("execute", JOB, "--follow")
    ending.join()
    assert followed.exit_code == 0, followed.output
    lines = [line.split() for line in followed.output.splitlines()]
    assert lines[-4:] == [["Table", "shop.shop,", "first", "rows:"], ["title", "price"], ["kettle", "19.5"], ["mug"]]


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
