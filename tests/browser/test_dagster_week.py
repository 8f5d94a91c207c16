"""A data engineer's week in the Dagster UI, with a picture of each step: three jobs of two projects are declared, a
month is backfilled, a day is broken, mended and made again, jobs follow each other, and an asset of the engineer's own
follows them.

What the UI shows is compared with what REST answers. The tests go on where the one before has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_dagster_ui import is_defined
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Json, Service, wait_until
from tests.support.webhook_receiver import Receiver, receive_webhooks
from tests.support.week import DayShop, apply, serve_shop

pytestmark = pytest.mark.long
DAYS = 30
MADE = """query ($key: AssetKeyInput!) { assetOrError(assetKey: $key) {
  ... on Asset { assetMaterializations { runId } } } }"""
OWN_ASSET = '''\
@asset(deps=[AssetKey(["week_finance", "report"])], group_name="reports")
def spread(datasets: SpindleDatasets) -> MaterializeResult:
    """The distance between the dearest and the cheapest day."""
    (row,) = datasets.read(AssetKey(["week_finance", "report"])).to_pylist()
    return MaterializeResult(metadata={"spread": row["highest"] - row["lowest"]})


definitions ='''


@dataclass
class Week:
    """The jobs by their names, and the messages of their notification rule."""

    service: Service
    folder: Path
    shop: DayShop
    receiver: Receiver
    jobs: dict[str, str]

    def list_executions(self, job: str) -> list[Json]:
        return self.service.get(f"{self.jobs[job]}/executions?limit=100")

    def list_partitions(self, state: str) -> list[str]:
        return [each["key"] for each in self.service.get(f"{self.jobs['prices']}/partitions?state={state}")]


@pytest.fixture(scope="module")
def week(customized: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Week]:
    """The declared jobs, once Dagster knows them."""
    folder = tmp_path_factory.mktemp("week")
    with serve_shop() as shop, receive_webhooks() as receiver:
        target = {"provider": "WEBHOOK", "name": "week", "endpoint": f"{receiver.url}/week"}
        credential = customized.post("/cloud-credentials", target)["id"]
        apply(customized, folder, shop)
        jobs = {
            job["name"]: f"/projects/id/{project['id']}/jobs/{job['id']}"
            for project in customized.get("/projects")
            if project["slug"].startswith("week_")
            for job in customized.get(f"/projects/id/{project['id']}/jobs")
        }
        for project, job in (("week_shop", "prices"), ("week_shop", "means"), ("week_finance", "report")):
            wait_until(lambda at=(project, job): is_defined(customized, *at), PATIENCE_SECONDS, every=POLL_SECONDS)
        yield Week(customized, folder, shop, receiver, jobs)
    with customized.client() as client:
        client.delete(f"/cloud-credentials/id/{credential}")


def launch(page: Page, service: Service, chosen: str) -> None:
    """Materialize partitions of the asset of prices: All, Latest, Missing or Failed ones."""
    page.goto(f"{service.ui_url}/assets/week_shop/prices?view=partitions")
    page.get_by_role("button", name="Materialize…").first.click()
    dialog = page.get_by_role("dialog")  # the page behind it has buttons of the same names
    dialog.get_by_role("button", name=chosen, exact=True).click()
    button = dialog.get_by_role("button", name="Launch")
    expect(button).to_be_enabled()
    button.click()
    expect(button).to_be_hidden()


def test_a_month_of_partitions_is_backfilled(week: Week, page: Page) -> None:
    launch(page, week.service, "Missing")
    wait_until(lambda: len(week.list_partitions("present")) == DAYS, 5 * PATIENCE_SECONDS, every=POLL_SECONDS)
    assert {each["trigger"] for each in week.list_executions("prices")} == {"dagster"}
    assert week.shop.requests == {f"2026-06-{day:02}": 1 for day in range(1, DAYS + 1)}
    page.goto(f"{week.service.ui_url}/runs?view=backfills")
    expect(page.get_by_text("30 partitions").first).to_be_visible()
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()
    page.goto(f"{week.service.ui_url}/assets/week_shop/prices?view=partitions")
    expect(page.get_by_text(f"Materialized ({DAYS})").first).to_be_visible()


def test_a_broken_day_shows_its_cause_and_somebody_is_told(week: Week, page: Page) -> None:
    apply(week.service, week.folder, week.shop, price="em")
    launch(page, week.service, "Latest")
    wait_until(lambda: week.list_partitions("failed") == ["2026-06-30"], PATIENCE_SECONDS, every=POLL_SECONDS)
    broken = week.list_executions("prices")[0]
    cause = "price is filled in 0 of 3 rows"
    assert cause in broken["errorMessage"]
    page.goto(f"{week.service.ui_url}/runs/{broken['dagsterRunId']}")
    expect(page.get_by_text("partition: 2026-06-30").first).to_be_visible()
    expect(page.get_by_text(re.compile(cause)).first).to_be_visible()
    expect(page.get_by_text(re.compile("selector em .* found nothing")).first).to_be_visible()
    wait_until(lambda: week.receiver.of("/week"), PATIENCE_SECONDS, every=POLL_SECONDS)
    (told,) = (message.payload for message in week.receiver.of("/week"))
    assert cause in told["text"]
    assert broken["dagsterRunId"] in told["link"]


def test_what_failed_is_made_again_alone(week: Week, page: Page) -> None:
    apply(week.service, week.folder, week.shop)
    before = week.shop.requests.copy()
    launch(page, week.service, "Failed")
    wait_until(lambda: not week.list_partitions("failed"), PATIENCE_SECONDS, every=POLL_SECONDS)
    wait_until(lambda: week.list_executions("prices")[0]["status"] == "COMPLETED", PATIENCE_SECONDS, every=POLL_SECONDS)
    assert week.shop.requests - before == {"2026-06-30": 1}
    wait_until(lambda: len(week.receiver.of("/week")) == 2, PATIENCE_SECONDS, every=POLL_SECONDS)
    page.goto(f"{week.service.ui_url}/assets/week_shop/prices?view=partitions")
    expect(page.get_by_text(f"Materialized ({DAYS})").first).to_be_visible()


def test_small_tables_are_joined_without_spark_and_followed(week: Week, page: Page) -> None:
    page.goto(f"{week.service.ui_url}/assets/week_shop/means")
    page.get_by_role("button", name="Materialize").first.click(modifiers=["Shift"])
    expect(page.get_by_text("Launchpad (configure assets)")).to_be_visible()
    expect(page.get_by_text("No errors")).to_be_visible()
    page.get_by_text("Materialize", exact=True).last.click()
    for job in ("means", "report"):  # the second has a new input
        wait_until(lambda job=job: week.list_executions(job), PATIENCE_SECONDS, every=POLL_SECONDS)
        wait_until(lambda job=job: week.list_executions(job)[0]["status"] == "COMPLETED", PATIENCE_SECONDS, every=1)
    means, report = (week.list_executions(job)[0] for job in ("means", "report"))
    assert [means["engine"], report["engine"]] == ["local", "local"]
    assert [means["trigger"], report["trigger"]] == ["dagster", "newInput"]
    page.goto(f"{week.service.ui_url}/assets/week_shop/means?view=events")
    expect(page.get_by_text("2026-06-01").first).to_be_visible()
    expect(page.get_by_text("21.5").first).to_be_visible()


def test_columns_and_assets_name_what_they_come_from(week: Week, page: Page) -> None:
    page.goto(f"{week.service.ui_url}/assets/week_shop/prices")
    for text in (
        "Price with tax (from i of",
        "Key of the partition",
        "Fails if more than 26 hours",
        "data@example.com",
    ):
        expect(page.get_by_text(text).first).to_be_visible()
    page.goto(f"{week.service.ui_url}/assets/week_finance/report?view=lineage&lineageScope=upstream&lineageDepth=5")
    for text in (week.shop.url.removeprefix("http://"), "prices", "means", "report", "100% filled"):
        expect(page.get_by_text(text, exact=True).first).to_be_visible()


def test_each_schedule_has_its_job_and_time_zone(week: Week, page: Page) -> None:
    page.goto(f"{week.service.ui_url}/locations/spindle/schedules/week_shop__nightly")
    for text in ("Executes the job 'prices' of the project 'Week shop'.", "At 02:00 AM", "Europe/Rome"):
        expect(page.get_by_text(text).first).to_be_visible()
    page.goto(f"{week.service.ui_url}/locations/spindle/schedules")
    for name in ("week_shop__nightly", "week_shop__monthly"):
        expect(page.get_by_text(name).first).to_be_visible()


def test_an_asset_of_ones_own_follows(week: Week, page: Page) -> None:
    reports = week.service.data.parent / "reports" / "reports.py"
    text = reports.read_text().replace("currencies],", "currencies, spread],").replace("definitions =", OWN_ASSET)
    reports.write_text(text)
    page.goto(f"{week.service.ui_url}/locations/reports")
    page.get_by_role("button", name="Reload").first.click()
    wait_until(lambda: is_defined(week.service, "spread"), PATIENCE_SECONDS, every=POLL_SECONDS)
    page.goto(f"{week.service.ui_url}/assets/spread?view=lineage")
    expect(page.get_by_text("report", exact=True).first).to_be_visible()
    page.get_by_role("button", name="Materialize").first.click()
    wait_until(
        lambda: week.service.graphql(MADE, key={"path": ["spread"]})["assetOrError"]["assetMaterializations"],
        PATIENCE_SECONDS,
        every=POLL_SECONDS,
    )
    page.goto(f"{week.service.ui_url}/assets/spread?view=events")
    expect(page.get_by_text("29", exact=True).first).to_be_visible()
