from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.browser.chromium import shut_down
from tests.support.strange import Strange, strange


@pytest.fixture(scope="session", autouse=True)
def _no_browser_stays() -> Iterator[None]:
    yield
    shut_down()


@pytest.fixture(scope="module")
def strange_site() -> Iterator[Strange]:
    with strange() as site:
        yield site
