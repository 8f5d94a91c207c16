"""Visits by the real Chromium: what a page is, what an action does, and what goes wrong."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from pipelines.browser.actions import ACTIONS, Action, Browsing, Visit, read_action
from pipelines.browser.fetcher import BrowserFetcher
from pipelines.extract import Document, compile_selector
from pipelines.fetch import Page
from pipelines.language.nodes import parse
from pipelines.registry import ENGINE
from tests.support.browser import OPTIONS, do, visited
from tests.support.browser_site import BrowserSite


def texts(page: Page, selector: str = "h1") -> list[str]:
    return [element.text() for element in Document(page).root.select(compile_selector(selector))]


@pytest.mark.long
def test_a_page_includes_the_changes_of_its_scripts(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/one")
    assert texts(page) == ["One, by script"]
    assert (page.status, page.error, page.url) == (200, None, f"{browser_site.url}/one")
    assert (page.content_type, page.charset, page.received > 100) == ("text/html", "utf-8", True)


def test_open_shadow_trees_are_read(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/shadow")
    assert texts(page, "h1, shop-price b, p") == ["Lamp", "12 €", "last"]
    assert texts(page, ":root[lang=en][title='</html>'] > body > shop-item") == ["Lamp 12 € light"]
    assert page.body.startswith(b"<!DOCTYPE html><html ")


def test_redirects_by_header_and_by_script_lead_to_the_final_address(browser_site: BrowserSite) -> None:
    base = browser_site.url
    [page] = visited(f"{base}/moved")
    assert (page.requested_url, page.redirects, page.url) == (f"{base}/moved", (f"{base}/moved-again",), f"{base}/two")
    [page] = visited(f"{base}/script-redirect")
    assert (page.url, texts(page)) == (f"{base}/two", ["Two"])


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [("/json", "application/json", b'{"a": [1, "<b>"]}'), ("/text", "text/plain", b"a <b> & c\n")],
)
def test_a_document_that_is_not_html_keeps_its_text(
    browser_site: BrowserSite, path: str, kind: str, body: bytes
) -> None:
    [page] = visited(browser_site.url + path)
    assert (page.content_type, page.body) == (kind, body)


def test_scripts_cannot_change_the_content_that_is_read(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/tampered")
    assert (page.status, page.content_type, texts(page)) == (200, "text/html", ["True"])


def test_a_visit_knows_nothing_of_the_one_before(browser_site: BrowserSite) -> None:
    pages = visited(f"{browser_site.url}/left", again=3)
    assert [texts(page) for page in pages] == [["nothing"]] * 3


@pytest.mark.long
@pytest.mark.parametrize(("per_host", "most"), [(1, 1), (16, 4)])
def test_a_host_gets_as_many_visits_at_a_time_as_the_pipeline_says(
    browser_site: BrowserSite, per_host: int, most: int
) -> None:
    browser_site.most_at_once = 0
    browser_site.two_at_once.clear()
    browser_site.patience = 40 if most > 1 else 0
    with BrowserFetcher(replace(OPTIONS, per_host=per_host), Browsing()) as fetcher:
        pages = list(fetcher.fetch((f"{browser_site.url}/slow?{number}", number) for number in range(8)))
    assert sorted(number for page, number in pages if page.ok) == list(range(8))
    assert browser_site.most_at_once <= most
    assert (browser_site.most_at_once > 1) == (most > 1)


def test_the_crawler_says_who_it_is(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/agent")
    assert re.fullmatch(r"Mozilla/5.0 .*HeadlessChrome/\d+\.0\.0\.0 .*Spindle/[\d.]+", texts(page)[0])
    [page] = visited(f"{browser_site.url}/agent", options=replace(OPTIONS, user_agent="shop-watch/1"))
    assert texts(page) == ["shop-watch/1"]


@pytest.mark.long
def test_images_fonts_and_media_are_loaded_only_when_asked_for(browser_site: BrowserSite) -> None:
    heavy = ("/i.png", "/v.mp4", "/f.woff2")
    browser_site.requests.clear()
    visited(f"{browser_site.url}/media", do("wait", seconds=0.3))
    assert [browser_site.requests[path] for path in heavy] == [0, 0, 0]

    class AllAsked(Action):
        def patience(self) -> float:
            return 60

        async def perform(self, visit: Visit) -> None:
            while not all(browser_site.requests[path] for path in heavy):
                await visit.page.wait_for_timeout(100)

    [page] = visited(f"{browser_site.url}/media", AllAsked(), images=True)
    assert page.error is None, browser_site.requests


@pytest.mark.long
def test_popups_dialogs_and_service_workers_come_to_nothing(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/popup", do("wait", seconds=0.2))
    assert (texts(page), page.url) == (["Popup"], f"{browser_site.url}/popup")
    visited(f"{browser_site.url}/worker", do("wait", seconds=0.2))
    assert browser_site.requests["/sw.js"] == 0


OUT = "#out"
ACTIONS_AND_WHAT_THEY_DO: list[tuple[list[dict[str, Any]], str, list[str]]] = [
    ([do("click", selector="#next")], "li", ["item 2.1", "item 2.2"]),
    ([do("click", selector="#late"), {"factory": "WaitFor", "params": {"selector": ".came"}}], OUT, ["came"]),
    ([do("TYPE", selector="input", text="lamp"), do("press", key="Enter", selector="input")], OUT, ["searched lamp"]),
    ([do("type", selector="input", text="cup", delay_ms=5), do("Press", key="Enter")], OUT, ["searched cup"]),
    ([do("select", selector="select", value="Cups")], OUT, ["chose c"]),
    ([do("hover", selector="h1")], OUT, ["hovered"]),
    ([do("click", selector="#absent", optional=True, timeout=0.1)], OUT, [""]),
    ([do("wait_for", selector=".came", state="detached")], "h1", ["Shop"]),
]


@pytest.mark.parametrize(("traces", "selector", "expected"), ACTIONS_AND_WHAT_THEY_DO)
def test_each_action_does_what_a_person_does(
    browser_site: BrowserSite, traces: list[dict[str, Any]], selector: str, expected: list[str]
) -> None:
    [page] = visited(f"{browser_site.url}/shop", *traces)
    assert (page.error, texts(page, selector)) == (None, expected)


@pytest.mark.long
@pytest.mark.parametrize(
    "params",
    [{"pauseMs": 300}, pytest.param({"behavior": "smooth", "step": 900, "pauseMs": 600}, marks=pytest.mark.long)],
)
def test_scrolling_continues_until_the_page_stops_growing(browser_site: BrowserSite, params: dict[str, Any]) -> None:
    [page] = visited(f"{browser_site.url}/feed", {"action": "scroll_to_bottom", "params": params})
    assert len(texts(page, "p")) == 30


def test_a_trace_that_begins_with_a_visit_needs_no_url(browser_site: BrowserSite) -> None:
    base = browser_site.url
    browser_site.requests.clear()
    [page] = visited(
        f"{base}/three", {"action": "visit", "params": {"url": f"{base}/two", "cooldown": 0.1}}, {"action": "visit"}
    )
    assert (page.url, texts(page)) == (f"{base}/three", ["Three"])
    assert (browser_site.requests["/two"], browser_site.requests["/three"]) == (1, 1)


def test_a_click_that_leads_to_another_page_is_followed(browser_site: BrowserSite) -> None:
    [page] = visited(
        f"{browser_site.url}/shop", do("click", selector="a.away"), do("wait_for", selector="h1:has-text('Mozilla')")
    )
    assert (page.url, page.status) == (f"{browser_site.url}/agent", 200)


def test_each_snapshot_is_a_page_and_a_screenshot_is_a_value(browser_site: BrowserSite) -> None:
    first, second = visited(
        f"{browser_site.url}/shop",
        {"action": "snapshot"},
        do("click", selector="#next"),
        {"action": "screenshot", "params": {"as": "picture", "full_page": True}},
        {"action": "Snapshot"},
    )
    assert [texts(page, "li") for page in (first, second)] == [["item 1.1", "item 1.2"], ["item 2.1", "item 2.2"]]
    assert [page.position for page in (first, second)] == [1, 2]  # type: ignore[attr-defined]
    assert first.kept is None
    picture = (second.kept or {})["picture"]
    assert isinstance(picture, bytes)
    assert picture.startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/download", "the address is a download, not a page"),
        ("/reset", "127.0.0.1 closed the connection without an answer"),
        ("/blank", "the page led to 'about:blank', which is not an http or https address"),
        ("/grow", "the page, with all that it loads, is larger than 1,000,000 bytes"),
        ("/endless", "the page, with all that it loads, is larger than 1,000,000 bytes"),
        ("/silent", "timed out after 3 s"),
    ],
)
def test_errors_are_sentences_on_the_page(browser_site: BrowserSite, path: str, error: str) -> None:
    options = replace(OPTIONS, max_body=1_000_000, total_timeout=3 if path == "/silent" else 60)
    [page] = visited(browser_site.url + path, options=options)
    assert (page.error, page.body) == (error, b"")


@pytest.mark.long
def test_a_script_that_never_rests_ends_with_its_time(browser_site: BrowserSite) -> None:
    options = replace(OPTIONS, total_timeout=3)
    [page, after] = [*visited(f"{browser_site.url}/hang", options=options), *visited(f"{browser_site.url}/three")]
    assert page.error == "timed out after 3 s"
    assert texts(after) == ["Three"]


def test_a_status_of_an_error_is_kept_and_a_busy_server_asked_again(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/absent")
    assert (page.status, page.ok, page.error) == (404, False, None)
    browser_site.requests.clear()
    [page] = visited(f"{browser_site.url}/busy", options=replace(OPTIONS, retries=1))
    assert (page.status, browser_site.requests["/busy"]) == (200, 2)


def test_an_action_that_fails_is_named(browser_site: BrowserSite) -> None:
    url = f"{browser_site.url}/shop"
    [page] = visited(url, do("wait", seconds=0), do("click", selector=".absent", timeout=0.2))
    assert (page.error, page.status) == ("action 2, click .absent: nothing to act on came within 0.2 s", 200)
    [page] = visited(url, do("press", key="Nonsense"))
    assert page.error.startswith("action 1, press Nonsense: ")


def test_a_tab_that_cannot_be_opened_is_no_crash_of_the_page(
    browser_site: BrowserSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_lines(*_: object) -> str:
        return "a\nb"

    monkeypatch.setattr("pipelines.browser.tab._create_user_agent", two_lines)
    [page] = visited(f"{browser_site.url}/one")
    assert page.error.startswith("the browser could not open a tab: ")


def test_pages_that_came_together_live_no_longer_than_they_are_read() -> None:
    class Tag:
        """What the reader makes of a page."""

    tags = WeakSet[Tag]()

    def requests() -> Iterator[tuple[str, Tag]]:
        for _ in range(4):
            tag = Tag()
            tags.add(tag)
            yield "nowhere", tag

    with BrowserFetcher(OPTIONS, Browsing()) as fetcher:
        assert [len(tags) for _ in fetcher.fetch(requests())] == [4, 3, 2, 1]


class CrashOnce(Action):
    """Makes the tab, the whole browser or Playwright's driver crash, the first time."""

    target: str

    async def perform(self, visit: Visit) -> None:
        if CRASHED.get(self.target):
            return
        CRASHED[self.target] = True
        if self.target == "tab":
            devtools = await visit.page.context.new_cdp_session(visit.page)
            await devtools.send("Page.crash")
        elif self.target == "driver":
            for process in drivers():
                os.kill(process, signal.SIGKILL)
            await visit.page.title()
        else:
            devtools = await visit.page.context.browser.new_browser_cdp_session()  # type: ignore[union-attr]
            await devtools.send("Browser.crash")


CRASHED: dict[str, bool] = {}


def drivers() -> list[int]:
    """The processes of Playwright's that this one has started."""
    children = [int(each) for path in Path("/proc/self/task").glob("*/children") for each in path.read_text().split()]
    return [child for child in children if b"playwright" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.long
@pytest.mark.parametrize("target", ["tab", "browser", "driver"])
def test_a_crash_is_survived(browser_site: BrowserSite, target: str) -> None:
    options = replace(OPTIONS, retries=1)
    CRASHED.clear()
    [page] = visited(f"{browser_site.url}/three", CrashOnce(target=target), options=options)
    assert (page.error, texts(page)) == (None, ["Three"])
    CRASHED.clear()
    [page, after] = visited(f"{browser_site.url}/three", CrashOnce(target=target), again=2)
    assert (page.error, texts(after)) == ("the browser crashed on the page", ["Three"])


EXAMPLES = {each.name: each for each in ACTIONS if each.plugin == ENGINE and each.name != "prompt"}


def test_a_prompt_outside_a_run_is_the_error_of_its_page(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/shop", *parse(ACTIONS.find("prompt").thing.example).to_plain())  # type: ignore[misc]
    assert (page.ok, "only a run performs it" in (page.error or "")) == (False, True)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_the_documentation_works(browser_site: BrowserSite, name: str) -> None:
    example = EXAMPLES[name].thing.example.replace("${SHOP}", browser_site.url)
    pages = visited(f"{browser_site.url}/shop", *parse(example).to_plain())  # type: ignore[misc]
    assert pages
    assert all(page.ok for page in pages)
    assert EXAMPLES[name].doc


def test_a_selector_of_an_action_has_a_greatest_length() -> None:
    with pytest.raises(ValueError, match="not a selector: it has 10,002 characters, and may have 10,000"):
        read_action(do("click", selector="a" * 10_000 + "()"))


@pytest.mark.parametrize(
    "selector", ["text=a]", "css=[a >> b)", "a >> //b)", "a >> xpath = b)", "  'a]'", "a >> 'b' >> c)"]
)
def test_selectors_that_are_not_css_are_left_to_playwright(selector: str) -> None:
    assert read_action(do("click", selector=selector))


def test_actions_are_found_in_every_spelling() -> None:
    for spelling in ("scroll_to_bottom", "scrollToBottom", "SCROLLTOBOTTOM", "ScrollToBottom"):
        assert type(read_action({"action": spelling})).__name__ == "ScrollToBottom"
