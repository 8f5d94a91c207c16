"""sitemap as the beginning of a pipeline, and loads of files at web addresses."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.coordination.server import Coordinator
from pipelines.engine.run import Run as PlanRun
from pipelines.errors import RunError
from pipelines.fetch import CrawlOptions
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from pipelines.stages.documents import fetch_documents
from pipelines.stages.sitemap import Search, Sitemap
from tests.support.fetching import LOOPBACK
from tests.support.pipelines import TITLE, Run
from tests.support.site import Site

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def sitemap(*entries: tuple[str, str | None]) -> str:
    urls = "".join(
        f"<url><loc>{url}</loc>{f'<lastmod>{changed}</lastmod>' if changed else ''}</url>" for url, changed in entries
    )
    return f"<?xml version='1.0'?><urlset {NAMESPACE}>{urls}</urlset>"


@pytest.fixture
def base(site: Site) -> str:
    """A site whose robots.txt names an index of two sitemaps, one old one and one that is missing."""
    base = site.url
    index = "".join(
        f"<sitemap><loc>{base}/{name}.xml</loc><lastmod>{changed}</lastmod></sitemap>"
        for name, changed in (("new", "2026-02"), ("old", "2025-01-01"), ("missing", "2026-02-01T10:00Z"))
    )
    pages = {
        "/robots.txt": f"User-agent: *\nDisallow: /private\nSitemap: {base}/index.xml\nsitemap: /more.txt",
        "/index.xml": f"<sitemapindex {NAMESPACE}>{index}</sitemapindex>",
        "/new.xml": sitemap(
            (f"{base}/p/1", "2026-02-03"), (f"{base}/p/2", None), (f"{base}/p/3", "2025-12-31"),
            (f"{base}/other", None), (f"{base}/p/1", None), ("http://elsewhere.test/p/9", None),
        ),
        "/old.xml": sitemap((f"{base}/p/8", "2026-03-01")),
        "/more.txt": f"{base}/p/4\n{base}/private/p/5\n",
        **{f"/p/{number}": f"<h1>{number}</h1>" for number in range(10)},
    }  # fmt: skip
    return site.serve(pages, {"/robots.txt": "text/plain", "/more.txt": "text/plain", "/new.xml": "application/xml"})


def test_the_pages_of_a_sitemap_are_rows(run: Run, site: Site, base: str) -> None:
    options = 'include: /p/, exclude: [/p/2], sameHost: true, since: "2026-01-01"'
    kept = "spindle: {keepColumns: [_requestedUrl, _error]}"
    rows = run(f"pipeline: [{{stage: sitemap, args: ['{base}', {{{options}}}]}}, {TITLE}]\n{kept}")
    assert rows.pop(1)["_error"].endswith("forbids this address to Spindle")
    assert [(row["title"], row["lastmod"], row["_requestedUrl"]) for row in rows] == [
        ("4", None, f"{base}/p/4"),
        ("1", "2026-02-03", f"{base}/p/1"),
    ]
    assert not {"/old.xml", "/p/2", "/p/3", "/other"} & site.requests.keys()


def test_a_sitemap_without_new_pages_is_no_rows_and_a_missing_one_an_error(run: Run, base: str) -> None:
    text = f'pipeline: [{{stage: sitemap, args: [{base}/%s, {{since: "2026-04-01", include: /p/3}}]}}, {TITLE}]'
    assert run(text % "new.xml") == []
    with pytest.raises(RunError, match=r"no sitemap of .* could be read: .*/nothing\.xml: the server answered 404"):
        run(text % "nothing.xml")


def test_a_day_is_not_older_than_its_noon_and_a_feed_is_a_sitemap(run: Run, site: Site) -> None:
    paths = ("2026-05-10", "2026-05", "2026-05-09")
    feed = "<link rel='self' href='/feed.xml'/>" + "".join(
        f"<entry><link href='/p/{changed}'/><updated>{changed}</updated></entry>" for changed in paths
    )
    base = site.serve({"/feed.xml": f"<feed xmlns='http://www.w3.org/2005/Atom'>{feed}</feed>"} | dict.fromkeys(
        (f"/p/{changed}" for changed in paths), "<h1>x</h1>"
    ))  # fmt: skip
    text = f"pipeline: [{{stage: sitemap, args: [{base}/feed.xml, {{since: '2026-05-10T12:00:00Z'}}]}}]"
    assert [row["lastmod"] for row in run(text)] == ["2026-05-10", "2026-05"]


SITEMAPS_WITHOUT_PAGES = {
    "a soft 404": ("<!doctype html><title>Oops</title><h1>No such page</h1>", "/s.xml: it is a page in HTML"),
    "other XML": ("<orders><url>x</url></orders>", "/s.xml: it is XML with the root <orders>, not a sitemap"),
    "no address": (f"<urlset {NAMESPACE}><url><loc> </loc></url></urlset>", "/s.xml: it has no address"),
    "an index of itself": ("<sitemapindex><sitemap><loc>/s.xml</loc></sitemap></sitemapindex>", "lists no other"),
    "an index of a soft 404": (
        "<sitemapindex><sitemap><loc>/t.xml</loc></sitemap></sitemapindex>",
        "/t.xml: it is a page in HTML",
    ),
}


@pytest.mark.parametrize(("body", "reason"), SITEMAPS_WITHOUT_PAGES.values(), ids=SITEMAPS_WITHOUT_PAGES)
def test_a_sitemap_without_pages_is_a_failure_with_a_reason(body: str, reason: str, run: Run, site: Site) -> None:
    base = site.serve({"/s.xml": body, "/t.xml": "<html><h1>No such page</h1></html>"})
    with pytest.raises(RunError, match=f"could be read: .*{reason}"):
        run(f"pipeline: [{{stage: sitemap, args: [{base}/s.xml]}}]")


@pytest.mark.long
def test_a_sitemap_of_full_size_is_read_in_seconds(site: Site) -> None:
    pages = "".join(f"<url><loc>https://shop.test/{number}</loc></url>" for number in range(50_000))
    address = site.serve({"/s.xml": f"<urlset {NAMESPACE}>{pages}</urlset>"}) + "/s.xml"
    with Coordinator(CrawlOptions(allow_networks=LOOPBACK)) as coordinator:
        context = RunContext(fetch=coordinator.options, endpoint=coordinator.endpoint)
        search = Search(Sitemap(address=address), context)
        began = process_time()
        search.run()
    assert len(search.found) == 50_000
    assert process_time() - began < 20


def test_files_are_loaded_from_web_addresses(run: Run, site: Site) -> None:
    base = site.serve({"/a.csv": "name\nLamp\n", "/b.json?x=1": '{"name": "Cup"}'}, {"/a.csv": "text/csv"})
    union = f"{{format: csv, path: '{base}/a.csv'}}, {{format: json, path: '{base}/b.json?x=1'}}"
    assert run(f"pipeline: [{{stage: load_union, args: [{union}]}}]") == [{"name": "Lamp"}, {"name": "Cup"}]
    load = f"pipeline: [{{stage: load_csv, args: ['{base}/%s']}}]"
    with pytest.raises(RunError, match=r"c\.csv' cannot be read: the server answered 404"):
        run(load % "c.csv")


def test_files_from_web_addresses_are_deleted_with_the_run(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    base = site.serve({"/a.csv": "name\nLamp\n"}, {"/a.csv": "text/csv"})
    plan = Pipeline.from_yaml(f"pipeline: [{{stage: load_csv, args: ['{base}/a.csv']}}]").plan()
    (tmp_path / "scratch" / "files").mkdir(parents=True)  # a bucket would not need it
    context = RunContext(fetch=CrawlOptions(allow_networks=LOOPBACK), scratch=f"{tmp_path}/scratch")
    with PlanRun(plan, context) as run:
        SparkRunner(run, spark).collect()
        (file,) = (tmp_path / "scratch").rglob("*.csv")
        assert file.read_text() == "name\nLamp\n"
    assert not file.exists()


def test_documents_are_fetched_through_the_guard(site: Site) -> None:
    with Coordinator(CrawlOptions(robots=False)) as coordinator:
        context = RunContext(fetch=coordinator.options, endpoint=coordinator.endpoint)
        (page,) = fetch_documents([site.serve({"/": "x"})], context, max_body=100, seconds=5)
    assert (page.error or "").startswith("refused: 127.0.0.1 is a loopback address")
    assert not site.requests
