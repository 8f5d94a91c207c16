"""A data engineer's day in the Dagster UI: lineage, a run, rows, plots, checks and a schedule, with a picture of each.

What the UI shows is compared with what REST answers. The pictures are in the folder SPINDLE_TEST_SCREENSHOTS, or in
the test's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from core.definitions.schedules.switches import has_new_switch
from tests.support.service import POLL_SECONDS, Job, Json, Service, wait_until
from tests.support.site import serve_gated_site

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chromium-headless-shell"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE_MS = 60_000
ASSET = "query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { __typename } }"
RUNS = "{ runsOrError(limit: 50) { ... on Runs { results { runId stepStats { stepKey status } } } } }"
PAGES = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: headline}}]}}
  - {{stage: save_parquet, args: ["${{OUTPUT_PAGES}}", overwrite]}}
checks:
  - {{check: row_count, min: 2}}
"""
SUMMARY = """\
pipeline:
  - {stage: load_parquet, args: [{path: "${OUTPUT_PAGES}"}]}
  - {stage: sql_query, args: ["SELECT headline, count(*) AS pages FROM rows GROUP BY headline"]}
"""


@dataclass(frozen=True)
class Day:
    """A project with two jobs, of which the second reads the output of the first; both ran in one Dagster run."""

    project: str
    pages: Job
    summary: Job
    run_id: str


@pytest.fixture(scope="module")
def day(service: Service, browser_page: Page) -> Iterator[Day]:
    """Both jobs, materialized by a click on their lineage."""
    with serve_gated_site() as site:
        site.open()
        pages = service.make_job(PAGES.format(url=site.url))
        agent = service.post("/agents", {"name": "summary", "pipelineYaml": SUMMARY})["id"]
        created = service.post(f"/projects/id/{pages.project_id}/jobs", {"name": "summary", "agentId": agent})
        summary = Job(pages.project_id, created["id"])
        project = service.get(f"/projects/id/{pages.project_id}")["slug"]
        wait_until(lambda: is_defined(service, project, "summary"), 60, every=POLL_SECONDS)
        browser_page.goto(f"{service.ui_url}/assets/{project}/summary?view=lineage")
        expect(browser_page.get_by_text("rows", exact=True).first).to_be_visible()
        browser_page.get_by_role("button", name="Materialize all").click()
        for job in (pages, summary):
            wait_until(lambda job=job: service.get(f"{job.path}/executions"), 120, every=POLL_SECONDS)
            assert service.wait(job, find_execution(service, job))["status"] == "COMPLETED"
        (run_id,) = {service.get(f"{job.path}/executions")[0]["dagsterRunId"] for job in (pages, summary)}
        yield Day(project, pages, summary, run_id)


@pytest.mark.long
def test_lineage_leads_from_job_to_job(service: Service, day: Day, page: Page) -> None:
    page.goto(f"{service.ui_url}/assets/{day.project}/summary?view=lineage")
    for asset in ("rows", "summary"):
        expect(page.get_by_text(asset, exact=True).first).to_be_visible()
    expect(page.get_by_text("Materialized", exact=True)).to_have_count(2)
    trigger = [service.get(f"{job.path}/executions")[0]["trigger"] for job in (day.pages, day.summary)]
    assert trigger == ["dagster", "dagster"]


@pytest.mark.long
def test_a_run_has_a_step_for_each_stage_of_both_jobs(service: Service, day: Day, page: Page) -> None:
    page.goto(f"{service.ui_url}/runs/{day.run_id}")
    expect(page.get_by_text("Success").first).to_be_visible()
    for step in ("start", "fetch", "wgetJoin", "extract", "save_parquet", "publish"):
        expect(page.get_by_text(f"{day.project}__rows.{step}").first).to_be_visible()
    expect(page.get_by_text(f"{day.project}__summary.sql_query").first).to_be_visible()
    (steps,) = (each["stepStats"] for each in list_runs(service) if each["runId"] == day.run_id)
    assert {each["status"] for each in steps} == {"SUCCESS"}


@pytest.mark.long
def test_an_asset_shows_its_rows_and_columns(service: Service, day: Day, page: Page) -> None:
    page.goto(f"{service.ui_url}/assets/{day.project}/rows?view=events")
    expect(page.get_by_text("dagster/row_count").first).to_be_visible()
    expect(page.get_by_text("headline").first).to_be_visible()
    expect(page.get_by_text("Gate").first).to_be_visible()
    stages = service.status(day.pages, find_execution(service, day.pages))["progress"]["stages"]
    assert stages[-1]["rows"] == 2


@pytest.mark.long
def test_numbers_are_plotted_over_time(service: Service, day: Day, page: Page) -> None:
    page.goto(f"{service.ui_url}/assets/{day.project}/rows")
    page.get_by_role("button", name="Plots").click()
    for name in ("rows", "pages", "errors", "seconds"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()


@pytest.mark.long
def test_checks_show_their_figures(service: Service, day: Day, page: Page) -> None:
    page.goto(f"{service.ui_url}/assets/{day.project}/rows?view=checks")
    expect(page.get_by_text("row_count").first).to_be_visible()
    expect(page.get_by_text("Passed").first).to_be_visible()
    (check,) = service.status(day.pages, find_execution(service, day.pages))["progress"]["checks"]
    assert (check["passed"], check["figures"]) == (True, {"rows": 2})


@pytest.mark.long
def test_a_schedule_has_one_switch(service: Service, page: Page) -> None:
    job = service.make_job(SUMMARY)
    project = service.get(f"/projects/id/{job.project_id}")["slug"]
    path = f"/projects/id/{job.project_id}/schedule"
    with service.client() as client:
        client.put(path, json={"cronSchedule": "0 6 * * *", "timezone": "Europe/Berlin"}).raise_for_status()
    page.goto(f"{service.ui_url}/locations/spindle/schedules/{project}")
    expect(page.get_by_text("At 06:00 AM").first).to_be_visible(timeout=60_000)
    with service.database() as database:
        wait_until(lambda: not has_new_switch(database), 60)
    page.locator("label:has(input[type=checkbox])").first.click()
    wait_until(lambda: service.get(path)["enabled"] is False, 60, every=POLL_SECONDS)


def find_execution(service: Service, job: Job) -> str:
    """Return the job's newest execution."""
    return service.get(f"{job.path}/executions")[0]["executionId"]


def is_defined(service: Service, *key: str) -> bool:
    """Whether Dagster has a definition of the asset."""
    answer = service.graphql(ASSET, key={"path": [*key]})["assetNodeOrError"]
    return answer["__typename"] == "AssetNode"


def list_runs(service: Service) -> list[Json]:
    return service.graphql(RUNS)["runsOrError"]["results"]
