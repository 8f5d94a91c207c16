"""Chromium for walks through console and Dagster UI. Pictures are in SPINDLE_TEST_SCREENSHOTS, or the test's folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.test_dagster_ui import CHROMIUM, FLAGS, PATIENCE_MS
from tests.support.walk import Walk


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: the console is not looked at.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def open_walk(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Walk]]:
    """What begins a walk in a browser of its own; at the end nobody has complained."""
    folder, walks = Path(os.environ.get("SPINDLE_TEST_SCREENSHOTS", tmp_path)), list[Walk]()

    def begin(**options: Any) -> Walk:
        page = chromium.new_context(viewport={"width": 1280, "height": 900}, **options).new_page()
        page.set_default_timeout(PATIENCE_MS)
        walk = Walk(page, folder)
        page.on("pageerror", lambda error: walk.complaints.append(str(error)))
        page.on("console", lambda said: walk.complaints.append(said.text) if "Security Policy" in said.text else None)
        walks.append(walk)
        return walk

    yield begin
    complaints = [each for walk in walks for each in walk.complaints]
    for walk in walks:
        walk.page.context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: the Dagster UI is not looked at.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE_MS)
        page = browser.new_page(viewport={"width": 1600, "height": 1200})
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        yield page
        browser.close()


@pytest.fixture
def page(browser_page: Page, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page, of which a picture is taken at the end of the test."""
    yield browser_page
    folder = Path(os.environ.get("SPINDLE_TEST_SCREENSHOTS", tmp_path))
    browser_page.screenshot(path=folder / f"{request.node.name.removeprefix('test_')}.png")
