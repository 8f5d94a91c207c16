"""Spark's page of an execution through the service: for callers of its organization, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from api.kit.concurrency import OUTBOUND
from tests.support.api import BASE, ROWS, Api, Job, read_code, start_server
from tests.support.site import Site, serve_site

PRIVATE = "http://127.0.0.1:4040"


@pytest.fixture(scope="module")
def history() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture(scope="module")
def callers(history: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    with start_server(tmp_path_factory.mktemp("data"), spark_history_url=history.url) as server:
        yield server.caller("acme", "admin"), server.caller("rival", "admin")


def test_the_page_of_an_ended_execution_comes_from_the_history_server(callers: tuple[Api, Api], history: Site) -> None:
    acme, rival = callers
    job = acme.job("ended")
    execution, other = job.execute(), job.execute()
    for each in (execution, other):
        job.complete(each, ROWS, sparkUiUrl=PRIVATE)
    own = f"/history/{execution}/1"
    foreign = f"/history/{other}/1/jobs/"
    history.serve({f"{own}/jobs/": "jobs", f"{own}/SQL/?id=1": "plan", "/static/a.js": "script", foreign: "foreign"})
    history.redirects = {f"{own}/": "/", f"{own}/out/": "http://127.0.0.1:1/", f"{own}/next/": f"{own}/SQL/?id=1"}
    history.pages |= dict.fromkeys(history.redirects, "")
    url = job.status(execution)["sparkUiUrl"]
    assert url == f"{str(acme.client.base_url).rstrip(chr(47))}{BASE}{job.path}/executions/{execution}/spark/"
    page = acme.call("GET", url)
    assert (page.status_code, page.text) == (200, "jobs")
    assert page.headers["Cache-Control"] == "private, no-store"
    for path, text in ((f"{own}/SQL/?id=1", "plan"), ("/static/a.js", "script"), (f"{own}/next/", "plan")):
        assert acme.call("GET", f"{url}{path[1:]}").text == text
    climbing = f"{own}/%2e%2e/%2e%2e/{other}/1/jobs/"
    for path in (foreign, "/history", f"{own}/", f"{own}/out/", climbing, "/api/v1/applications"):
        refused = acme.call("GET", f"{url}{path[1:]}")
        assert read_code(refused) == (404, "no-spark-page"), path
    assert rival.call("GET", url).status_code == 404
    assert acme.client.get(url).status_code == 401
    assert acme.call("POST", url).status_code == 405


def test_executions_without_a_page_say_so(callers: tuple[Api, Api], history: Site) -> None:
    job: Job = callers[0].job("pageless")
    execution = job.execute()
    job.report(execution, "RUNNING")
    path = f"{job.path}/executions/{execution}/spark/"
    assert (job.status(execution)["sparkUiUrl"], job.api.call("GET", path).status_code) == (None, 404)
    job.report(execution, "RUNNING", sparkUiUrl=PRIVATE)
    assert (job.status(execution)["sparkUiUrl"], job.api.call("GET", path).status_code) == (PRIVATE, 404)
    job.report(execution, "FAILED", errorMessage="x")
    history.serve({})
    assert job.api.call("GET", path).status_code == 404


def test_pages_that_hang_leave_room_for_other_callers(callers: tuple[Api, Api]) -> None:
    acme, _ = callers
    job = acme.job("busy")
    execution = job.execute()
    job.complete(execution, ROWS, sparkUiUrl=PRIVATE)
    path = f"{job.path}/executions/{execution}/spark/"
    with ExitStack() as under_way:
        for _ in range(OUTBOUND.per_caller):
            under_way.enter_context(OUTBOUND.acquire(acme.organization_id))
        refused = acme.call("GET", path)
        assert read_code(refused) == (429, "concurrency-limit")
    assert acme.call("GET", path).status_code == 404
