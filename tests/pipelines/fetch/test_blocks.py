"""Pages of bot protections are failures, and no others are."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.extract.rows import Fetched
from pipelines.fetch.blocks import MARKERS, BlockSigns, find_block, mark_blocked
from pipelines.fetch.page import Page
from pipelines.pipeline import Pipeline
from tests.support.site import serve_site
from tests.support.trials import open_trial

PAGES = sorted((Path(__file__).parent / "blocked").glob("*.html"))

PIPELINE = """
fetch: {url: "${B}/"}
pipeline:
  - {stage: wgetJoin, args: [a]}
  - {stage: extract, args: [{selector: h1, as: name}]}
spindle: {blockedWhen: {selector: .robot}}
"""


def make_page(body: bytes, status: int = 200, kind: str | None = "text/html") -> Page:
    url = "https://shop.example/"
    return Page(url, url, status, None, kind, None, body, datetime.now(UTC))


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_of_a_protection_is_a_failure(path: Path, status: int) -> None:
    page = mark_blocked(make_page(path.read_bytes(), status))
    protection = page.error.removeprefix("blocked: ").partition(" answered")[0] if page.error else None
    assert protection in {marker.protection for marker in MARKERS}
    assert Fetched.from_page(page).root is None


def test_each_marker_has_a_page() -> None:
    pages = [path.read_bytes() for path in PAGES]
    for marker in MARKERS:
        assert any(marker.title in page and any(part in page for part in marker.fragments) for page in pages), marker


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_about_a_protection_is_none(path: Path) -> None:
    title = path.read_bytes().lower().partition(b"<title")[2].partition(b"</title")[0].partition(b">")[2]
    article = b"<title>About: " + title + b"</title><h1>What this page means</h1>" + b"<p>text</p>" * 500
    assert find_block(make_page(article + path.read_bytes())) is None
    assert find_block(make_page(b"<title>Access Denied</title><h1>Access Denied, a novel</h1>", 200)) is None


def test_other_types_are_not_searched() -> None:
    assert find_block(make_page(PAGES[0].read_bytes(), kind="application/json")) is None


def test_blocked_pages_are_no_rows() -> None:
    pages = {
        "/": "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>",
        "/1": "<h1>one</h1>",
        "/2": "<title>DDoS-Guard</title><script src=/.well-known/ddos-guard/x.js></script><h1>Checking</h1>",
        "/3": "<h1 class=robot>Are you one?</h1>",
    }
    with serve_site() as site:
        plan = Pipeline.from_yaml(PIPELINE).plan({"B": site.serve(pages)})
        with open_trial(plan, 10) as trial:
            rows = list(trial.iter_rows())
    assert [row.values["name"] for row in rows] == ["one", None, None]
    assert [(row.fetched.error or "").partition(" answered")[0] for row in rows] == [
        "",
        "blocked: DDoS-Guard",
        "blocked: the site",
    ]


@pytest.mark.parametrize(
    ("signs", "blocked"),
    [
        (BlockSigns(selector="form#robot"), True),
        (BlockSigns(text="Are you human?"), True),
        (BlockSigns(selector="form#other", text="Are you human?"), True),
        (BlockSigns(selector="form#other"), False),
        (BlockSigns(text="robots"), False),
    ],
)
def test_a_pipeline_has_its_own_signs(signs: BlockSigns, blocked: bool) -> None:
    page = make_page(b"<form id=robot>Are you <b>human?</b></form>")
    fetched = Fetched.from_page(page, signs=(signs, None))
    assert (fetched.root is None, (fetched.error or "").startswith("blocked: the site")) == (blocked, blocked)
