"""People sign in by a Dex, and out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from tests.support.api import start_server
from tests.support.dex import Dex, choose_dex
from tests.support.service import PATIENCE_SECONDS, wait_until

HOME = "/console"
SIGN_IN = f"{HOME}/sign-in/provider"


@pytest.fixture(scope="module")
def dex(tmp_path_factory: pytest.TempPathFactory) -> Dex:
    return choose_dex(tmp_path_factory.mktemp("dex"))


@pytest.fixture
def browser(dex: Dex, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with start_server(tmp_path_factory.mktemp("office"), **dex.settings()) as server:
        url = str(server.client.base_url).rstrip("/")
        with dex.serve(url), httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
            client.headers["Origin"] = url
            yield client


def test_a_person_of_dex_signs_in_and_out_of_both(dex: Dex, browser: httpx.Client) -> None:
    assert dex.sign_in(browser, SIGN_IN).status_code == 200
    assert ">Ann<" in browser.get(HOME).text
    left = browser.post(f"{HOME}/sign-out")
    address = re.search(r'href="([^"]+/logout[^"]+)"', left.text)
    assert address is not None
    back = browser.get(unescape(address[1]), follow_redirects=True)
    assert (back.status_code, back.url.path) == (401, HOME)
    assert "password" in browser.get(SIGN_IN, follow_redirects=True).text  # which Dex asks for again
    browser.cookies.clear()
    assert dex.sign_in(browser, SIGN_IN).status_code == 200


def test_a_sign_out_of_dex_ends_the_session(dex: Dex, browser: httpx.Client) -> None:
    assert dex.sign_in(browser, SIGN_IN).status_code == 200
    assert browser.get(HOME).status_code == 200
    browser.post(f"{dex.url}/logout")
    wait_until(lambda: browser.get(HOME).status_code == 401, PATIENCE_SECONDS)
