from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.browser.chromium import close_chromium
from tests.support.browser_site import BrowserSite, serve_browser_site
from tests.support.scripted_site import ScriptedSite, serve_scripted_site


@pytest.fixture(scope="session", autouse=True)
def _no_browser_stays() -> Iterator[None]:
    yield
    close_chromium()


@pytest.fixture(scope="module")
def browser_site() -> Iterator[BrowserSite]:
    with serve_browser_site() as site:
        yield site


@pytest.fixture
def scripted_site() -> Iterator[ScriptedSite]:
    with serve_scripted_site() as site:
        yield site
