"""Walks through the console in Chromium, with a picture and axe's verdict of each page."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable

import httpx
import pyarrow as pa
import pytest
from playwright.sync_api import expect

from api.kit.auth import SESSION_COOKIE
from core.definitions.agents.models import EXAMPLE
from core.infra.storage import open_storage
from core.infra.storage.protocol import failures_key, log_key
from tests.support.api import ROWS, Api, Job, Server
from tests.support.service import Service
from tests.support.site import serve_gated_site
from tests.support.walk import Walk

PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - stage: extract
    args:
      - {{selector: h1, method: text, as: headline}}
      - {{selector: .none, method: text, as: nothing}}
checks:
  - {{check: row_count, min: 2}}
"""
ATTACK = "</title><img src=x onerror=\"document.title='ran'\"><script>document.title='ran'</script>{{7*7}}"
HUGE = "<b>huge</b>" * 100_000
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def acme(server: Server) -> Api:
    return server.caller("console", "admin")


def url_of(server: Server) -> str:
    return str(server.client.base_url)


def path_of(job: Job, execution: str) -> str:
    return f"/console/projects/{job.project_id}/jobs/{job.id}/executions/{execution}"


@pytest.mark.gate
def test_a_job_is_executed_and_its_rows_are_read(service: Service, open_walk: Callable[..., Walk]) -> None:
    with serve_gated_site() as site:
        job = service.make_job(PIPELINE.format(url=site.url))
        project = service.get(f"/projects/id/{job.project_id}")["name"]
        walk = open_walk()
        page = walk.page
        page.goto(f"http://127.0.0.1:{service.port}/")
        walk.look("sign_in")
        walk.sign_in(f"http://127.0.0.1:{service.port}/", service.key)
        page.get_by_role("link", name=project).first.click()
        walk.look("project")
        page.get_by_role("link", name="rows", exact=True).click()
        page.get_by_role("button", name="Execute").click()
        expect(page.get_by_text("This page follows by itself.").or_(page.get_by_text("extract"))).to_be_visible()
        site.open()
        expect(page.get_by_role("status")).to_have_text("completed")
        expect(page.get_by_role("group", name="First rows")).to_contain_text("headline")
        expect(page.get_by_role("group", name="Stages")).to_contain_text("found nothing on 2 of 2 pages")
        walk.look("execution")
        expect(page.get_by_role("link", name="Run in Dagster")).to_be_visible()
        page.get_by_role("link", name="Dataset", exact=True).click()
        expect(page.get_by_role("group", name="Rows")).to_contain_text("headline")
        page.get_by_label("One statement").fill("SELECT count(*) AS pages FROM output")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("group", name="Answer")).to_contain_text("pages")
        walk.look("dataset")
        with page.expect_download() as downloaded:
            page.get_by_role("link", name="csv").click()
        assert "headline" in downloaded.value.path().read_text()
        expect(page.locator("main")).to_contain_text("Written by rows.")
        page.locator("main").get_by_role("link", name="rows", exact=True).click()
        expect(page.get_by_role("img", name=re.compile("^Rows of the last 1 "))).to_be_visible()
        walk.look("job")


def test_pages_follow_an_execution_until_it_is_cancelled(
    server: Server, acme: Api, open_walk: Callable[..., Walk]
) -> None:
    job = acme.job("live")
    execution = job.execute()
    home, walk = open_walk(), open_walk()
    home.sign_in(url_of(server), acme.key)
    walk.sign_in(url_of(server), acme.key)
    walk.page.goto(url_of(server) + path_of(job, execution))
    stages = [{"key": "s01", "title": "wget", "state": "RUNNING", "rows": 7, "pages": 1234, "errors": 2}]
    job.report(execution, "RUNNING", additionalMetrics={"progress": {"fraction": 0.5, "stages": stages}})
    expect(walk.page.get_by_role("group", name="Stages")).to_contain_text("1\u202f234")
    expect(home.page.get_by_role("group", name="Live executions")).to_contain_text("1\u202f234")
    home.look("home")
    walk.page.on("dialog", lambda dialog: dialog.accept())
    walk.page.get_by_role("button", name="Cancel").click()
    expect(walk.page.get_by_role("status")).to_have_text("cancelled")
    expect(home.page.get_by_text("Nothing is running.")).to_be_visible()
    expect(walk.page.get_by_role("button", name="Retry")).to_be_visible()


def test_texts_of_hostile_pages_are_shown_and_never_run(
    server: Server, acme: Api, open_walk: Callable[..., Walk]
) -> None:
    job = acme.job(ATTACK)
    done, failed = job.execute(), job.execute()
    dataset = job.complete(done, pa.table({"title": [ATTACK, HUGE], ATTACK: ["a", None]}))
    storage = open_storage(server.settings.storage)
    page = {"url": f"http://x.test/{ATTACK}", "status": 500, "reason": "http-status", "message": ATTACK} | {
        "stage": ATTACK,
        "line": 1,
        "attempts": 1,
    }
    lines = [json.dumps({"counts": [{"status": 500, "reason": "http-status", "pages": 1}]}), json.dumps(page)]
    storage.put(failures_key(acme.organization_id, failed, 1), io.BytesIO("\n".join(lines).encode()))
    storage.put(log_key(acme.organization_id, failed, 1), io.BytesIO(f"2026-11-28 [error] {ATTACK}\n".encode()))
    stages = [{"key": "s01", "title": ATTACK, "warnings": [ATTACK], "selectors": [{"selector": ATTACK, "empty": 1}]}]
    progress = {"stages": stages, "checks": [{"check": ATTACK, "message": ATTACK}]}
    job.report(failed, "FAILED", errorMessage=ATTACK, additionalMetrics={"progress": progress})
    walk = open_walk(color_scheme="dark")
    walk.sign_in(url_of(server), acme.key)
    base = f"/console/projects/{job.project_id}"
    paths = {
        "hostile_home": "/console",
        "hostile_project": base,
        "hostile_job": f"{base}/jobs/{job.id}",
        "hostile_execution": path_of(job, failed),
        "hostile_rows": path_of(job, done),
        "hostile_datasets": "/console/datasets",
        "hostile_dataset": f"/console/datasets/{dataset}",
    }
    for name, path in paths.items():
        walk.page.goto(url_of(server) + path)
        for details in walk.page.locator("summary").all():
            details.click()
        assert "{{7*7}}" in walk.page.locator("main").inner_text(), name
        assert len(walk.page.content()) < 120_000, name
        walk.look(name)
        assert walk.page.title() != "ran", name
    walk.page.get_by_role("button", name="Run").click()
    expect(walk.page.get_by_role("group", name="Answer")).to_contain_text("{{7*7}}")
    assert len(walk.page.content()) < 120_000
    assert walk.page.title() != "ran"


def test_a_pipeline_is_mended_at_the_line_of_its_problem(
    server: Server, acme: Api, open_walk: Callable[..., Walk]
) -> None:
    job = acme.job("edited")
    walk = open_walk()
    page = walk.page
    walk.sign_in(url_of(server), acme.key)
    page.goto(f"{url_of(server)}/console/projects/{job.project_id}/jobs/{job.id}")
    page.get_by_role("link", name="Pipeline").click()
    expect(page.get_by_role("status")).to_have_text("The pipeline is valid.")
    expect(page.get_by_role("group", name="Plan")).to_contain_text("extract")
    text = page.get_by_label("Pipeline in YAML")
    text.fill(text.input_value() + "  - {stage: extrakt, args: [{selector: b, as: bold}]}\n")
    expect(page.get_by_role("status")).to_have_text("1 problem")
    walk.look("editor")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("extrakt")
    page.get_by_role("button", name="Line 4").click()
    page.keyboard.type("  - {stage: extract, args: [{selector: b, method: text, as: bold}]}")
    expect(page.get_by_role("status")).to_have_text("The pipeline is valid.")
    page.context.clear_cookies()
    page.get_by_role("button", name="Save", exact=True).click()
    sign_in_beside(walk, acme)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Saved.")
    assert "as: bold" in acme.get(f"/agents/none/{job.agent_id}")["pipelineYaml"]
    page.goto(f"{url_of(server)}/console/agents/new")
    page.get_by_label("Name").fill("made here")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="made here")).to_be_visible()
    expect(text).to_have_value(EXAMPLE)
    page.goto(f"{url_of(server)}/console/agents")
    expect(page.get_by_role("link", name="made here")).to_be_visible()
    walk.look("agents")


def test_a_session_that_ends_on_an_open_page_loses_nothing(
    server: Server, acme: Api, open_walk: Callable[..., Walk]
) -> None:
    job = acme.job("expiry")
    dataset = job.complete(job.execute(), ROWS)
    walk = open_walk()
    walk.page.set_viewport_size({"width": 360, "height": 740})
    walk.sign_in(url_of(server), acme.key)
    walk.page.goto(f"{url_of(server)}/console/datasets/{dataset}")
    assert walk.page.evaluate("document.documentElement.scrollWidth") <= 360
    statement = walk.page.get_by_label("One statement")
    statement.fill("SELECT max(price) AS highest FROM output")
    cookies = {each["name"]: each["value"] for each in walk.page.context.cookies()}
    with httpx.Client(base_url=url_of(server), cookies={SESSION_COOKIE: cookies[SESSION_COOKIE]}) as other:
        other.post("/console/sign-out", headers={"Origin": url_of(server)})
    walk.page.get_by_role("button", name="Run").click()
    expect(walk.page.get_by_text("Your session has ended.")).to_be_visible()
    walk.look("phone")
    sign_in_beside(walk, acme)
    expect(statement).to_have_value("SELECT max(price) AS highest FROM output")
    statement.press("Control+Enter")
    expect(walk.page.get_by_role("group", name="Answer")).to_contain_text("19.5")


def sign_in_beside(walk: Walk, api: Api) -> None:
    """Do what the page says when its session has ended."""
    with walk.page.expect_popup() as opened:
        walk.page.get_by_role("link", name="Sign in in a new tab").click()
    opened.value.get_by_label("API key").fill(api.key)
    opened.value.get_by_role("button", name="Sign in").click()
    expect(opened.value.get_by_role("heading", name="Running now")).to_be_visible()
