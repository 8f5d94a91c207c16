"""What the console is for: somebody without a terminal writes a pipeline, schedules it, and mends it when it fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_dagster_ui import PATIENCE_MS
from tests.support.service import Service
from tests.support.site import serve_site
from tests.support.walk import Walk

SHELF = """<html><head><title>Shelf</title></head><body><h1>Shelf</h1><ul>
<li class="item"><b class="{title}">kettle</b> <span class="price">19.50</span></li></ul></body></html>"""
pytestmark = pytest.mark.long


def choose(page: Page, selector: str, proposed: str) -> None:
    """Click an element of the fetched page, and the selector that is proposed for it."""
    expect(page.get_by_text("Click an element")).to_be_visible()
    box = page.frame_locator("#frame").locator(selector).bounding_box()
    assert box
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    page.get_by_role("button", name=proposed, exact=True).click()
    expect(page.get_by_role("group", name="Rows of the trial")).to_contain_text("kettle")


def test_a_pipeline_is_clicked_scheduled_mended_and_its_rows_downloaded(
    service: Service, open_walk: Callable[..., Walk]
) -> None:
    with serve_site() as site:
        url = site.serve({"/": SHELF.format(title="title")}) + "/"
        walk = open_walk()
        page = walk.page
        walk.sign_in(f"http://127.0.0.1:{service.port}/", service.key)
        page.get_by_role("link", name="Agents").click()
        page.get_by_role("link", name="New agent").click()
        page.get_by_label("Page", exact=True).fill(url)
        page.get_by_role("button", name="Try").click()
        choose(page, "b.title", "b.title")
        text = page.get_by_label("Pipeline in YAML")
        text.fill(text.input_value().replace("as: title}", "as: title, required: true}"))
        expect(page.get_by_role("status").first).to_have_text("The pipeline is valid.")
        page.get_by_label("Name", exact=True).fill("shelf watcher")
        walk.look("week_written")
        page.get_by_role("button", name="Save and run for 20 rows").click()
        page.wait_for_url("**/executions/*")
        expect(page.get_by_role("status")).to_have_text("completed")
        walk.look("week_tried")

        site.serve({"/": SHELF.format(title="name")})  # the shop has a new design
        page.locator(".trail a").first.click()
        page.get_by_role("link", name="New schedule").click()
        page.get_by_label("Name", exact=True).fill("often")
        page.get_by_label("Times", exact=True).fill("* * * * *")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="Next ticks")).to_be_visible()
        walk.look("week_scheduled")
        page.locator(".trail a").last.click()
        expect(page.locator("#jobs")).to_contain_text("failed", timeout=4 * PATIENCE_MS)  # after the next minute
        page.get_by_role("link", name="often").click()
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible()

        page.get_by_role("link", name="Home").click()
        walk.look("week_home")
        page.locator("#failed").get_by_role("link", name="rows").first.click()
        expect(page.locator("#summary")).to_contain_text("b.title")
        expect(page.locator("#summary")).to_contain_text("schedule")
        walk.look("week_failed")
        failed = page.url
        page.get_by_role("link", name="Pipeline").click()
        page.get_by_role("button", name="Try").click()
        page.get_by_label("Replace the selector").check()
        line = next(n for n, each in enumerate(text.input_value().split("\n")) if "b.title" in each)
        text.press("Control+Home")
        for _ in range(line):
            text.press("ArrowDown")
        choose(page, "b.name", "b.name")
        assert "b.title" not in text.input_value()
        walk.look("week_mended")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("status").first).to_have_text("Saved.")
        page.goto(failed)
        page.get_by_role("button", name="Execute").click()
        page.wait_for_url(lambda url: "/executions/" in url and url != failed)
        expect(page.get_by_role("status")).to_have_text("completed")
        page.get_by_role("link", name="Dataset", exact=True).click()
        expect(page.get_by_role("group", name="Rows")).to_contain_text("kettle")
        with page.expect_download() as downloaded:
            page.get_by_role("link", name="csv").click()
        assert "kettle" in downloaded.value.path().read_text()
        walk.look("week_rows")
        page.set_viewport_size({"width": 360, "height": 740})
        walk.look("week_rows_phone")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
