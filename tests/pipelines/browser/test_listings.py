"""Lists that scripts load: the JSON itself, and scrolling until enough or nothing more comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.fetch import Page
from pipelines.fetch.failures import FailureReason, find_reason
from tests.pipelines.browser.test_visits import texts
from tests.support.browser import do, visited
from tests.support.scripted_site import ScriptedSite

ITEMS = "/api/items"


def list_names(pages: list[Page]) -> list[str]:
    return [item["name"] for page in pages for item in json.loads(page.body)["items"]]


@pytest.mark.long
@pytest.mark.parametrize("path", ["/listing", "/boxed"])
def test_all_answers_of_a_scrolled_list_are_documents(scripted_site: ScriptedSite, path: str) -> None:
    scroll = do("scroll_to_bottom", selector="li", pauseMs=100)
    pages = visited(f"{scripted_site.url}{path}", scroll, do("capture", url=ITEMS))
    assert list_names(pages) == [f"item {number}" for number in range(1, 31)]
    assert [page.url for page in pages] == [f"{scripted_site.url}{ITEMS}?page={number}" for number in (1, 2, 3)]
    assert {(page.requested_url, page.status, page.error) for page in pages} == {(scripted_site.url + path, 200, None)}


def test_a_page_without_such_an_answer_says_what_its_scripts_asked(scripted_site: ScriptedSite) -> None:
    capture = do("capture", url="/api/products", timeout=0.5)
    [page] = visited(f"{scripted_site.url}/listing", capture)
    assert (page.error or "").startswith("no JSON came from an address that matches '/api/products'; other addresses")
    assert f"{scripted_site.url}{ITEMS}" in (page.error or "")
    assert "hush" not in (page.error or "")
    assert find_reason(page.status, page.error or "") is FailureReason.ACTION


def test_a_page_with_fewer_answers_than_wanted_is_no_success(scripted_site: ScriptedSite) -> None:
    some = do("capture", url=ITEMS)
    for more in ({"url": ITEMS, "atLeast": 40, "timeout": 0.5}, {"url": "/api/prices", "timeout": 0.5}):
        [page] = visited(f"{scripted_site.url}/listing", some, {"action": "capture", "params": more})
        assert not page.ok
        assert find_reason(page.status, page.error or "") is FailureReason.ACTION
        assert more["url"] in (page.error or "")


def test_answers_with_the_status_of_an_error_are_failed_documents(scripted_site: ScriptedSite) -> None:
    [page] = visited(f"{scripted_site.url}/broken", do("capture", url="/api/"))
    assert (page.status, page.ok) == (410, False)


def test_a_page_that_is_missing_is_a_failure_of_its_own(scripted_site: ScriptedSite) -> None:
    [page] = visited(f"{scripted_site.url}/nowhere", do("capture", url="/api/", timeout=0.2))
    assert (page.status, page.url) == (404, f"{scripted_site.url}/nowhere")


@pytest.mark.long
@pytest.mark.parametrize(("params", "least", "most"), [({"items": 25}, 30, 30), ({"seconds": 4}, 20, 60)])
def test_scrolling_ends_with_enough_items_or_time(
    scripted_site: ScriptedSite, params: dict[str, Any], least: int, most: int
) -> None:
    scroll = do("scroll_to_bottom", selector="li", pauseMs=100, **params)
    [page] = visited(f"{scripted_site.url}/forever", scroll)
    assert least <= len(texts(page, "li")) <= most


def test_a_list_that_scrolls_by_itself_is_read_to_its_end(scripted_site: ScriptedSite) -> None:
    scroll = do("scroll_to_bottom", selector="li", pauseMs=100)
    [page] = visited(f"{scripted_site.url}/boxed", scroll)
    assert len(texts(page, "li")) == 30
