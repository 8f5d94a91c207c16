"""A limit is reached with good pages: failed ones, which give no row, are replaced by the next links."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pipelines.language.engines import Growth
from tests.support.runners import Runners
from tests.support.site import Site

NUMBERS = range(12)
PAGES: Mapping[str, str | int] = {
    "/": "".join(f"<a href=/{n}>{n}</a>" for n in NUMBERS),
    **{f"/{n}": f"<h1>{n}</h1><b><i href=/{n}/part></i></b><p>1</p><p>2</p>" for n in NUMBERS},
    **{f"/{n}/part": f"<h1>{n}</h1>" for n in NUMBERS},
    **dict.fromkeys(("/0", "/1", "/4"), 500),
}
SEEDS = "fetch: {url: [" + ", ".join(f"'${{B}}/{n}'" for n in NUMBERS) + "]}\npipeline:\n"
JOIN = "fetch: {url: '${B}/'}\npipeline:\n- {stage: wgetJoin, args: [a]}\n"
PARTS = JOIN + "- {stage: wgetJoin, args: ['[href]']}\n"
EXPLORE = "fetch: {url: '${B}/'}\npipeline:\n- {stage: explore, args: [a, 2]}\n"
TITLE = "- {stage: extract, args: [{selector: h1, as: title}]}\n"
FROM_JSON = "- {stage: extract, args: [{selector: $.title, as: title}]}\n"
TWO_ROWS = "- {stage: flatSelect, args: [p, {selector: ':root h1', as: title}]}\n"
SIX = "- {stage: limit, args: [6]}\n"
END = "spindle: {maxFailureRatio: 1, retries: 0}\n"
KEPT = "spindle: {maxFailureRatio: 1, retries: 0, keepColumns: [_error]}\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "titles", "last"),
    [
        (JOIN + TITLE + SIX, "235678", 8),
        (SEEDS + TITLE + SIX, "235678", 8),
        (PARTS + TITLE + SIX, "235678", 8),
        (JOIN + TWO_ROWS + SIX, "223355", 8),
    ],
    ids=["links", "seeds", "links behind failures", "two rows of a page"],
)
def test_failed_pages_use_up_no_limit(text: str, titles: str, last: int, runners: Runners, site: Site) -> None:
    plan = runners.plan(text + END, B=site.serve(PAGES))
    shown = runners.assert_equal(plan)
    assert [*shown.ordered] == [repr({"title": each}) for each in titles]
    assert {path for path in shown.requests or {} if path[1:].isdigit()} == {f"/{n}" for n in range(last + 1)}


@pytest.mark.long
def test_failed_pages_of_the_last_link_stage_use_up_no_limit(runners: Runners, site: Site) -> None:
    failed = dict.fromkeys(("/2/part", "/3/part", "/6/part", "/9"), 404)
    limit = "- {stage: limit, args: [4]}\n"
    shown = runners.assert_equal(runners.plan(PARTS + TITLE + limit + END, B=site.serve({**PAGES, **failed})))
    assert [*shown.ordered] == [repr({"title": each}) for each in ("5", "7", "8", "10")]
    assert "/11" not in (shown.requests or {})


@pytest.mark.parametrize(("rows", "levels"), [(4, 1), (9, 2), (20, 2)])
def test_failed_pages_of_an_explore_use_up_no_limit(rows: int, levels: int, runners: Runners, site: Site) -> None:
    pages = {
        "/": "<h1>start</h1>" + "".join(f"<a href=/{n}>{n}</a>" for n in range(7)),
        **{f"/{n}": f"<h1>{n}</h1><a href=/{n}/a>a</a><a href=/{n}/b>b</a><a href=/2>2</a>" for n in range(7)},
        **{f"/{n}/{part}": f"<h1>{n}{part}</h1>" for n in range(7) for part in "ab"},
        **dict.fromkeys(("/0", "/1", "/4", "/2/a", "/3/b"), 500),
    }
    good = ["start", "2", "3", "5", "6", "2b", "3a", "5a", "5b", "6a", "6b"]
    plan = runners.plan(f"{EXPLORE}{TITLE}- {{stage: limit, args: [{rows}]}}\n{END}", B=site.serve(pages))
    shown = runners.assert_equal(plan)
    assert [*shown.ordered] == [repr({"title": each}) for each in good[:rows]]
    assert any("/" in path[1:] for path in shown.requests or {}) == (levels == 2)


@pytest.mark.long
def test_failed_pages_of_json_use_up_no_limit(runners: Runners, site: Site) -> None:
    pages = {
        path: f'{{"title": {path[1:]}}}' if path[1:].isdigit() and page != 500 else page for path, page in PAGES.items()
    }
    base = site.serve(pages, {path: "application/json" for path in pages if path[1:].isdigit()})
    shown = runners.assert_equal(runners.plan(JOIN + FROM_JSON + SIX + END, B=base))
    assert [*shown.ordered] == [repr({"title": each}) for each in (2, 3, 5, 6, 7, 8)]


def test_failures_count_toward_a_limit_where_they_are_rows(runners: Runners, site: Site) -> None:
    shown = runners.assert_equal(runners.plan(JOIN + TITLE + SIX + KEPT, B=site.serve(PAGES)))
    assert len(shown.ordered) == 6
    assert "/6" not in (shown.requests or {})


@pytest.mark.long
def test_a_run_that_grows_over_replaces_failed_pages_too(runners: Runners, site: Site) -> None:
    plan = runners.plan(JOIN + TITLE + SIX + END, B=site.serve(PAGES))
    alone = runners.run_locally(plan)
    grown, error = runners.run_growing(plan, Growth(pages=4))
    assert error is not None
    runners.assert_same(alone, grown)


def test_a_site_that_is_down_is_not_asked_for_all_pages(runners: Runners, site: Site) -> None:
    links = "".join(f"<a href=/x{n}>{n}</a>" for n in range(400))
    plan = runners.plan(JOIN + TITLE + SIX + END, B=site.serve({"/": links}))
    requests = runners.run_locally(plan).requests or {}
    assert 100 <= len(requests) < 200
