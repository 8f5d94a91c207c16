"""Runs over the stored pages of an earlier one: without a request, and with its pages alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.engine.run import Run
from pipelines.errors import RunError
from pipelines.local.runner import LocalRunner
from pipelines.page_cache.cache import list_stored_pages
from pipelines.page_cache.options import CacheOptions, Replay
from pipelines.pipeline import Pipeline
from tests.support.pipelines import make_context
from tests.support.site import Site, serve_site

LOOPBACK = ("127.0.0.0/8",)
PAGES: dict[str, str | int] = {
    "/": "<a href=/a>A</a><a href=/b>B</a><i>start</i>",
    "/a": "<h1>Apple</h1><i>red</i>",
    "/b": "<h1>Beet</h1><i>dark</i>",
    "/c": "<h1>Corn</h1>",
}
TEXT = """
fetch: {url: "URL/"}
pipeline:
  - {stage: join, args: [a]}
  - {stage: extract, args: [{selector: SELECTOR, as: name}]}
spindle: {keepColumns: [_error], maxFailureRatio: 1}
"""


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.serve(PAGES)
        yield site


def run(text: str, cache: CacheOptions) -> list[dict[str, Any]]:
    plan = Pipeline.from_yaml(text).plan()
    context = make_context(plan, cache=cache)
    with Run(plan, context) as run:
        return LocalRunner(run).collect().to_pylist()


def test_a_changed_pipeline_runs_over_stored_pages(site: Site, tmp_path: Path) -> None:
    text = TEXT.replace("URL", site.url)
    first = CacheOptions(str(tmp_path / "pages"), since=datetime.now(UTC), used=str(tmp_path / "1"))
    run(text.replace("SELECTOR", "h1"), first)
    later = replace(first, used=str(tmp_path / "2"), since=datetime.now(UTC))
    ended = datetime.now(UTC)
    site.pages["/a"] = "<h1>Avocado</h1><i>green</i>"
    site.requests.clear()
    replay = replace(later, replay=Replay("one", (str(tmp_path / "1"),), ended))
    changed = text.replace("SELECTOR", "i")
    expected = [{"name": "red", "_error": None}, {"name": "dark", "_error": None}]
    assert run(changed, replay) == expected
    assert not site.requests
    again = replace(replay, used=None, replay=Replay("two", (str(tmp_path / "2"),), datetime.now(UTC)))
    assert run(changed, again) == expected  # it has used them itself
    stored = list_stored_pages(str(tmp_path / "pages"), [str(tmp_path / "1")], ended)
    assert {page.requested_url for _, page in stored} == {f"{site.url}{path}" for path in ("/", "/a", "/b")}


def test_other_pages_and_later_copies_are_refused(site: Site, tmp_path: Path) -> None:
    text = TEXT.replace("URL", site.url).replace("SELECTOR", "h1")
    cache = CacheOptions(str(tmp_path / "pages"), since=datetime.now(UTC), used=str(tmp_path / "1"))
    run(text, cache)
    ended = datetime.now(UTC)
    later = replace(cache, since=datetime.now(UTC), used=str(tmp_path / "other"))
    run(f'fetch: {{url: "{site.url}/c"}}\npipeline: [{{stage: extract, args: [{{selector: h1, as: n}}]}}]', later)
    run(text.replace("join, args: [a]", "join, args: ['a:contains(B)']"), later)  # fetches /b again
    site.requests.clear()
    text = text.replace(
        "stage: join, args: [a]", f'stage: wget, args: [["{site.url}/a", "{site.url}/b", "{site.url}/c"]]'
    )
    rows = run(text, replace(cache, replay=Replay("one", (str(tmp_path / "1"),), ended)))
    reason = "it is not among the stored pages of execution one: it was not fetched, may not be stored, or was"
    assert [row["name"] for row in rows] == ["Apple", None, None]
    assert all(row["_error"].startswith(reason) for row in rows[1:])
    assert not site.requests


@pytest.mark.parametrize(
    "stages",
    [
        "{stage: download, args: ['URL/a']}",
        "{stage: sitemap, args: ['URL/sitemap.xml']}",
        "{stage: wget, args: ['URL/a', {headers: {Authorization: x}}]}",
        "{stage: visit, args: ['URL/a']}",
    ],
)
def test_no_stage_sends_a_request(site: Site, tmp_path: Path, stages: str) -> None:
    replay = Replay("one", (str(tmp_path / "1"),), datetime.now(UTC))
    text = f"pipeline: [{stages.replace('URL', site.url)}]\nspindle: {{keepColumns: [_error], maxFailureRatio: 1}}"
    try:
        (row,) = run(text, CacheOptions(str(tmp_path / "pages"), replay=replay))
        failure = row["_error"]
    except RunError as error:
        failure = str(error)
    assert "it is not among the stored pages" in failure
    assert not site.requests
