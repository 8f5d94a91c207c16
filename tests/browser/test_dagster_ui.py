"""What a person sees in the Dagster UI: the run's steps with their metadata, and the asset with its preview."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.support.service import Service
from tests.support.site import serve_gated_site

pytestmark = pytest.mark.timeout(240)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chromium-headless-shell"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE_MS = 60_000
TAGS = "query ($run: ID!) { runOrError(runId: $run) { ... on Run { tags { key value } } } }"
PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: headline}}]}}
"""


@pytest.fixture(scope="module")
def run(service: Service) -> str:
    """The Dagster run of a completed execution."""
    with serve_gated_site() as site:
        site.open()
        job = service.make_job(PIPELINE.format(url=site.url))
        execution = service.execute(job)
        assert service.wait(job, execution, seconds=120)["status"] == "COMPLETED"
    return service.runs(execution)[0]["runId"]


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: the Dagster UI is not looked at.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE_MS)
        page = browser.new_page(viewport={"width": 1600, "height": 1600})
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        yield page
        page.screenshot(path=tmp_path / "page.png")
        browser.close()


def test_the_run_shows_its_stages(service: Service, run: str, page: Page) -> None:
    page.goto(f"{service.ui_url}/runs/{run}")
    for key in ("s01_fetch", "s02_wgetJoin", "s03_extract", "s04_output"):
        expect(page.get_by_text(f"stage[{key}]").first).to_be_visible()
    expect(page.get_by_text("ASSET_MATERIALIZATION").or_(page.get_by_text("Materialized value")).first).to_be_visible()


def test_the_asset_shows_rows_and_a_preview(service: Service, run: str, page: Page) -> None:
    project = next(tag["value"] for tag in tags(service, run) if tag["key"] == "spindle/project")
    page.goto(f"{service.ui_url}/assets/{project}/rows?view=events")
    expect(page.get_by_text("dagster/row_count").first).to_be_visible()
    expect(page.get_by_text("headline").first).to_be_visible()
    expect(page.get_by_text("Gate").first).to_be_visible()


def tags(service: Service, run: str) -> list[dict[str, str]]:
    answer = service.graphql(TAGS, run=run)
    return answer["runOrError"]["tags"]
