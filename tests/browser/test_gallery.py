"""The gallery of product images in Chromium: its key, its pictures, and what its page may not do."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from core.infra.storage import open_storage
from core.infra.storage.protocol import kept_files_key
from plugins.ean_image_sourcing.pictures import read_picture
from tests.browser.test_dagster_ui import CHROMIUM, FLAGS, PATIENCE_MS
from tests.plugins.ean_image_sourcing.countries import BASE, EANS, complete, make_image, upload
from tests.plugins.ean_image_sourcing.images import make_photo
from tests.support.api import Api, Job, Server

SCORES = (0.97, 0.94, 0.71, 0.32)
HOSTILE = "<img src=x onerror=document.title='hacked'>"


@pytest.fixture
def page() -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: the gallery is not looked at.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE_MS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        yield page
        browser.close()


def keep_image(job: Job, ean: str, rank: int, score: float) -> dict[str, Any]:
    """Return the row of an image whose files are kept as the driver keeps them."""
    body = make_photo(int(ean) % 97 + (rank if score < 0.5 else 0), quality=40 + 10 * rank)
    row = make_image(ean, rank, score)
    for column, content in (("image_sha256", body), ("image_thumbnail", read_picture(body).thumbnail)):
        digest = store_file(job, content)
        row[column] = digest
    return row


def store_file(job: Job, content: bytes) -> str:
    digest = sha256(content).hexdigest()
    key = f"{kept_files_key(job.api.organization_id)}/{digest}"
    open_storage(job.api.settings.storage).put(key, io.BytesIO(content))
    return digest


def fill_gallery(api: Api) -> None:
    upload(api, "france", "\n".join(["ean", *EANS]).encode())
    execution = api.post(f"{BASE}/france/execute", {})["executionId"]
    status = api.get(f"{BASE}/france/status")
    job = Job(api, status["projectId"], status["latestJobId"], "")
    rows = [keep_image(job, ean, rank, score) for ean in EANS[:2] for rank, score in enumerate(SCORES, 1)]
    rows.append(make_image(EANS[2], 1, None) | {"result_title": HOSTILE, "result_link": "javascript:alert(1)"})
    complete(job, execution, rows)


@pytest.mark.long
def test_the_gallery_shows_products_with_their_images(server: Server, page: Page, tmp_path: Path) -> None:
    buyer = server.caller("gallery buyers", "admin")
    fill_gallery(buyer)
    addresses: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    address = str(buyer.client.base_url.join(f"/api/svc/api{BASE}/france/gallery"))
    answer = page.goto(address)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'")
    assert "unsafe" not in policy

    page.get_by_label("API key").fill("sk_wrong")
    page.get_by_role("button", name="Show images").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert complaints.pop().startswith("Failed to load resource")  # the 401, and nothing else so far
    assert not complaints

    page.get_by_label("API key").fill(server.caller(buyer.organization_id, "datasets:read", "etl:read").key)
    page.get_by_role("button", name="Show images").click()
    expect(page.locator("article")).to_have_count(3)
    pictures = page.locator(".frame img")
    expect(pictures).to_have_count(2 * len(SCORES))
    assert pictures.evaluate_all("images => images.every(each => each.complete && each.naturalWidth === 160)")
    first = page.locator("article").filter(has_text=EANS[0])
    assert first.locator(".facts b").all_text_contents() == ["0.97", "0.94", "0.71", "0.32"]
    expect(page.locator("article").filter(has_text=HOSTILE)).to_contain_text("0 images, 1 dead link")
    assert page.title() == "Product images · france"
    page.screenshot(path=Path(os.environ.get("SPINDLE_TEST_SCREENSHOTS", tmp_path)) / "gallery.png", full_page=True)

    first.locator(".image").first.click()
    whole = page.locator("dialog img")
    expect(whole).to_have_attribute("src", re.compile("^data:image/jpeg"))
    assert whole.evaluate("image => image.decode().then(() => image.naturalWidth)") == 400
    expect(page.locator("dialog")).to_contain_text("agrees with 1 of 2 other images")
    page.screenshot(path=Path(os.environ.get("SPINDLE_TEST_SCREENSHOTS", tmp_path)) / "gallery_image.png")
    page.get_by_role("button", name="Close").click()

    page.get_by_label("EAN begins with").fill(EANS[1][:6])
    page.get_by_label("Score from").fill("0.9")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("article")).to_have_count(1)
    expect(page.locator(".facts b")).to_have_text(["0.97", "0.94"])

    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    assert {each.rsplit("/", 1)[0] for each in addresses if not each.startswith("data:")} == {address.rsplit("/", 1)[0]}
    page.reload()
    expect(page.get_by_label("API key")).to_have_value("")
    assert not [each for each in complaints if "Content Security Policy" not in each]
