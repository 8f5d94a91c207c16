"""A pipeline that fetches pages and makes no columns of them gives their address, status and title everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

PAGES = {
    "/": "<title>Shop</title><a href=/a>a</a><a href=/gone>g</a>",
    "/a": "<title> A\n lamp </title><a href=/>home</a>",
    "/feed": "<rss><channel><title>News</title></channel></rss>",
    "/api": '{"title": "x"}',
}
TYPES = {"/feed": "application/rss+xml", "/api": "application/json"}
HOME, LAMP, GONE = ("/", 200, "Shop"), ("/a", 200, "A lamp"), ("/gone", 404, None)
PIPELINES = {
    "one page": ("fetch: {url: '${B}/'}\npipeline: []", [HOME]),
    "links": ("fetch: {url: '${B}/'}\npipeline: [{stage: join, args: [a]}]", [LAMP, GONE]),
    "an explore": ("fetch: {url: '${B}/'}\npipeline: [{stage: explore, args: [a, 2]}]", [HOME, LAMP, GONE]),
    "other types": (
        "fetch: {url: ['${B}/feed', '${B}/api']}\npipeline: []",
        [("/feed", 200, "News"), ("/api", 200, None)],
    ),
    "segments": ("fetch: {url: '${B}/'}\npipeline: [{stage: flatSelect, args: [a]}]", [HOME] * 2),
    "a table stage": ("fetch: {url: '${B}/'}\npipeline: [{stage: join, args: [a]}, {stage: limit, args: [1]}]", [LAMP]),
    "equal pages": ("fetch: {url: ['${B}/a', '${B}/a']}\npipeline: [{stage: dedup, args: [_requestedUrl]}]", [LAMP]),
}


@pytest.mark.long
@pytest.mark.parametrize(("text", "rows"), PIPELINES.values(), ids=PIPELINES)
def test_pages_without_columns_give_address_status_and_title(
    text: str, rows: Sequence[tuple[str, int, str | None]], runners: Runners, site: Site, tmp_path: Path
) -> None:
    base = site.serve(PAGES, TYPES)
    plan = runners.plan(text, B=base)
    assert [each.code for each in plan.warnings] == ["no-columns"]
    outcome = runners.assert_equal(plan)
    wanted = [{"url": f"{base}{path}", "status": status, "title": title} for path, status, title in rows]
    assert outcome.preview == wanted
    tried = try_rows(plan)
    assert tried[: len(wanted)] == wanted
