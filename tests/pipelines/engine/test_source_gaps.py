"""Whether a run has covered its source, so that keys without a row are gone from it."""

from __future__ import annotations

import pytest

from pipelines.engine.run import Run
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from tests.support.pipelines import make_context
from tests.support.search_engines import serve_search
from tests.support.site import Site

EXTRACT = "- {stage: extract, args: [{selector: h1, as: name}]}\n"
LIST = f"fetch: {{url: '${{BASE}}/'}}\npipeline:\n- {{stage: wgetJoin, args: [a, Inner]}}\n{EXTRACT}"
SITEMAP = f"pipeline:\n- {{stage: sitemap, args: ['${{BASE}}/map.xml']}}\n{EXTRACT}"
PAGES = {
    "/": "".join(f"<a href=/{name}>x</a>" for name in "abcd"),
    **{f"/{name}": f"<h1>{name}</h1>" for name in "acd"},
}
PAGINATED = f"fetch: {{url: '${{BASE}}/1', paginate: {{next: a}}}}\npipeline:\n{EXTRACT}"
EXPLORED = f"fetch: {{url: '${{BASE}}/'}}\npipeline:\n- {{stage: explore, args: [a, 2]}}\n{EXTRACT}"
CHAIN = {"/1": "<h1>1</h1><a href=/2>n</a>", "/2": "<h1>2</h1><a href=/3>n</a>", "/3": "<h1>3</h1><a href=/1>n</a>"}
GONE, AWAY = {"/b": 404}, {"/b": 500}
MAP = "<sitemapindex>{}</sitemapindex>".format("".join(f"<sitemap><loc>/{n}.xml</loc></sitemap>" for n in "12"))


def find_gap(site: Site, text: str, pages: dict[str, str | int], limit: int | None = None) -> str | None:
    plan = Pipeline.from_yaml(text).plan({"BASE": site.serve({**PAGES, **pages})})
    context = make_context(plan, limit=limit)
    with Run(plan, context) as run:
        LocalRunner(run).collect()
        return run.find_gap()


@pytest.mark.parametrize(
    ("text", "pages", "limit", "gap"),
    [
        (LIST, GONE, None, None),
        (LIST, AWAY, None, "could not be fetched"),
        (LIST, {**GONE, "/robots.txt": "User-agent: *\nDisallow: /b"}, None, "robots.txt forbids"),
        (LIST, GONE, 10, "limit"),
        (LIST + "- {stage: limit, args: [9]}\n", GONE, None, None),
        (LIST + "- {stage: limit, args: [3]}\n", {"/b": "<h1>b</h1>"}, None, "limit in line 5"),
        (LIST + "- {stage: limit, args: [2]}\n", GONE, None, "limit in line 5"),  # the 404 is one of the two links
        (f"{PAGINATED}spindle: {{maxPages: 2}}", CHAIN, None, "1 address has more than 2 pages in line 1"),
        (f"{PAGINATED}spindle: {{maxPages: 3}}", CHAIN, None, None),
        (f"{EXPLORED}spindle: {{maxPages: 3}}", GONE, None, "maxPages (3) was reached in line 3"),
        (f"{EXPLORED}spindle: {{maxPages: 6}}", GONE, None, None),
        (f"{LIST}spindle: {{maxPages: 2}}", GONE, None, None),
        (
            SITEMAP,
            {"/map.xml": MAP, "/1.xml": "<urlset><url><loc>/a</loc></url></urlset>", "/2.xml": 503},
            None,
            "sitemap in line 2",
        ),
    ],
    ids=[
        "all but a gone page",
        "a failed page",
        "robots",
        "execution",
        "wide limit",
        "limit",
        "gone link",
        "cut pagination",
        "whole pagination",
        "cut explore",
        "whole explore",
        "maxPages of neither",
        "sitemap",
    ],
)
def test_a_run_tells_what_it_may_have_missed(
    site: Site, text: str, pages: dict[str, str | int], limit: int | None, gap: str | None
) -> None:
    found = find_gap(site, text, pages, limit)
    assert found is None if gap is None else found is not None and gap in found


def test_a_pagination_beyond_the_pages_of_any_run_is_a_gap(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.extract.pagination.MAX_PAGES", 2)
    found = find_gap(site, PAGINATED, CHAIN)
    assert "1 address has more than" in (found or "")


def test_pages_that_only_enrich_rows_leave_no_gap(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_search() as server:
        server.results["lamp"] = [(f"{site.url}{path}", "Lamp", "", "") for path in ("/a", "/b", "/private")]
        monkeypatch.setenv("SEARXNG_BASE_URL", server.url)
        text = "pipeline:\n- {stage: searchEngine, args: [{query: lamp, enrich: true}]}\nspindle: {retries: 0}"
        assert find_gap(site, text, {**AWAY, "/robots.txt": "User-agent: *\nDisallow: /private"}) is None
