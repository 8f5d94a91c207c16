"""Each stage on real Spark, against pages and rows that are written down here."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.errors import RunError
from pipelines.fetch import CrawlOptions
from pipelines.pipeline import Pipeline
from tests.support.pipelines import TITLE, Run, crawl, load_table
from tests.support.site import Site

HOME = """<html><body><h1>Home</h1><ul>
<li class=c><a class=item href="/p/1">One</a><b>1</b></li>
<li class=c><a class=item href="p/2#reviews">Two</a><b>2</b></li>
<li class=c><a class=item href="/p/gone">Gone</a></li>
<li class=c><a class=item href="mailto:shop@example.com">Mail</a></li>
<li class=c><a class=item>Nowhere</a></li>
<li class=c><a class=item href="/p/1">One again</a></li>
</ul></body></html>"""
ONE = """<h1>First <br>thing</h1><p class=price>£1,09 incl. 20% VAT</p>
<img src="/i/1.png" alt="one"><a href="/more">m</a>"""
TWO = """<h1>Second</h1><div data-id="7" class="x">d</div>"""
PAGES = {"/": HOME, "/p/1": ONE, "/p/2": TWO, "/empty": "<h1>Nothing</h1>"}
CONTEXT = RunContext(fetch=CrawlOptions(allow_networks=("127.0.0.0/8",)))


@pytest.fixture
def base(site: Site) -> str:
    return site.serve(PAGES)


def test_join_gives_a_row_per_link_in_document_order(run: Run, base: str, site: Site) -> None:
    kept = "keepColumns: [_linkText, _requestedUrl, _status, _error]"
    rows = run(crawl(f"{base}/", "{stage: wgetJoin, args: [a.item]}", TITLE, options=kept))
    assert [tuple(row.values()) for row in rows] == [
        ("First thing", "One", f"{base}/p/1", 200, None),
        ("Second", "Two", f"{base}/p/2", 200, None),
        (None, "Gone", f"{base}/p/gone", 404, "the server answered 404"),
        ("First thing", "One again", f"{base}/p/1", 200, None),
    ]
    assert site.requests["/p/1"] == 1, "equal links of one stage are fetched once"


@pytest.mark.parametrize(
    ("join_type", "titles"), [("Inner", []), ("LeftOuter", ["Nothing"]), ("left_outer", ["Nothing"]), ("INNER", [])]
)
def test_join_type_decides_about_rows_without_links(run: Run, base: str, join_type: str, titles: list[str]) -> None:
    join, last = f"{{stage: join, args: [a, {{joinType: {join_type}}}]}}", TITLE.replace("as: title", "as: next")
    assert run(crawl(f"{base}/empty", TITLE, join, last)) == [{"title": title, "next": None} for title in titles]


@pytest.mark.parametrize("join_type", ["Inner", "LeftOuter"])
def test_a_failed_link_keeps_its_row_under_both_joins(run: Run, site: Site, join_type: str) -> None:
    base = site.serve({"/": "<a href=/a>A</a><a href=/b>B</a>", "/a": "<h1>A</h1>", "/b": 503})
    stages = f"{{stage: wgetJoin, args: {{selector: a, joinType: {join_type}}}}}", "{stage: wgetJoin, args: [a]}"
    rows = run(crawl(f"{base}/", *stages, options="keepColumns: [_status, _error]"))
    assert rows == [{"_status": None, "_error": None}, {"_status": 503, "_error": "the server answered 503"}]


def test_every_extractor_method_in_every_spelling(run: Run, base: str) -> None:
    text = """
fetch: {url: "${BASE}/p/1"}
pipeline:
  - stage: extract
    args:
      - {selector: h1}
      - {selector: h1, method: code, as: code}
      - {selector: h1, method: HTML, as: html}
      - [{selector: .price, method: price}, {selector: img, method: "attr:alt", as: alt}]
      - {selector: img, method: attr(alt), as: alt2}
      - {selector: img, method: attr, args: [alt], as: alt3}
      - {selector: img, method: attrs}
      - {selector: a, method: href}
      - {selector: img, method: src}
      - {selector: .absent, as: absent}
      - {selector: .absent, method: price, as: absent_price}
  - {stage: extract, args: [{field: text, as: copy}, {field: $"code", method: text, as: code_copy}]}
  - {stage: extract, args: {extractors: [{selector: $copy, method: price, as: none}]}}
"""
    title, code = "First thing", "<h1>First <br>thing</h1>"
    assert run(text, BASE=base) == [
        {
            **{"text": title, "code": code, "html": code, "price": 1.09},
            **{"alt": "one", "alt2": "one", "alt3": "one", "attrs": {"src": "/i/1.png", "alt": "one"}},
            **{"href": f"{base}/more", "src": f"{base}/i/1.png", "absent": None, "absent_price": None},
            **{"copy": title, "code_copy": code, "none": None},
        }
    ]


def test_extract_overwrites_a_column_in_place(run: Run, base: str) -> None:
    first = "{stage: extract, args: [{selector: h1, as: a}, {selector: div, as: b}]}"
    again = '{stage: extract, args: [{selector: div, method: "attr:data-id", as: a}]}'
    rows = run(crawl(f"{base}/p/2", first, again))
    assert [list(row.items()) for row in rows] == [[("a", "7"), ("b", "d")]]


def test_flat_select_reads_inside_its_segment_and_root_reads_the_page(run: Run, base: str) -> None:
    widen = "{stage: widen, args: [li.c, [{selector: a, as: name}, {selector: b, as: number}]]}"
    rows = run(crawl(f"{base}/", widen, '{stage: extract, args: [{selector: ":root h1", as: page}, {as: whole}]}'))
    assert [row["name"] for row in rows] == ["One", "Two", "Gone", "Mail", "Nowhere", "One again"]
    assert rows[0] == {"name": "One", "number": "1", "page": "Home", "whole": "One1"}
    assert rows[2] == {"name": "Gone", "number": None, "page": "Home", "whole": "Gone"}


def test_flat_select_keeps_a_row_of_nulls_and_the_parents_columns(run: Run, base: str) -> None:
    rows = run(crawl(f"{base}/empty", TITLE, "{stage: flatSelect, args: [li, {selector: a, as: name}]}"))
    assert rows == [{"title": "Nothing", "name": None}]


def test_join_after_flat_select_takes_the_links_of_the_segment(run: Run, base: str) -> None:
    select = '{stage: flatSelect, args: ["li:has(b)", {selector: b, as: number}]}'
    rows = run(crawl(f"{base}/", select, "{stage: wgetJoin, args: [a, Inner]}", TITLE))
    assert rows == [{"number": "1", "title": "First thing"}, {"number": "2", "title": "Second"}]


@pytest.mark.parametrize("stage", ["wget", "fetch", "WGET"])
def test_wget_with_an_address_makes_the_first_row(run: Run, base: str, stage: str) -> None:
    text = f"pipeline: [{{stage: {stage}, args: '{base}/p/2'}}, {{stage: extract, args: [{{selector: h1, as: t}}]}}]"
    assert run(text) == [{"t": "Second"}]


def test_wget_of_a_column_keeps_rows_without_an_address(run: Run, base: str, tmp_path: Path) -> None:
    stages = f"- {{stage: wget, args: ['$\"page url\"']}}\n- {TITLE}\nspindle: {{keepColumns: [_error]}}\n"
    rows = run(load_table(tmp_path, f"name,page url\na,{base}/p/1\nb,\nc,nonsense\nd,{base}/p/2\n", stages))
    assert [(row["name"], row["title"], row["_error"]) for row in rows] == [
        ("a", "First thing", None),
        ("b", None, None),
        ("c", None, "'nonsense' is not an http or https address"),
        ("d", "Second", None),
    ]


def test_a_fetch_that_nothing_uses_is_not_fetched(run: Run, base: str, site: Site, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,x\n")
    load = f"{{stage: load_csv, args: [{{path: '{tmp_path}/in.csv', inferSchema: true}}]}}"
    assert run(crawl(f"{base}/", load)) == [{"a": 1, "b": "x"}]
    assert not site.requests


def test_a_limit_takes_the_first_rows_and_pages_can_be_fetched_after_it(run: Run, base: str) -> None:
    select = "{stage: flatSelect, args: [li, {selector: a, as: name}, {selector: a, method: href, as: link}]}"
    stages = select, "{stage: limit, args: [2]}", "{stage: wget, args: [$link]}", TITLE
    rows = run(crawl(f"{base}/", *stages))
    assert [(row["name"], row["title"]) for row in rows] == [("One", "First thing"), ("Two", "Second")]


def test_a_pipeline_without_rows_still_has_its_columns(spark: SparkSession, base: str) -> None:
    extract = "{stage: extract, args: [{selector: h1, as: title}, {selector: p, method: price}, {method: attrs}]}"
    text = crawl(f"{base}/empty", "{stage: join, args: [a, Inner]}", extract, options="keepColumns: [_status]")
    rows = Pipeline.from_yaml(text).run(spark, {}, CONTEXT)
    types = {"title": "string", "price": "double", "attrs": "map<string,string>", "_status": "int"}
    assert (rows.dtypes, rows.count()) == ([*types.items()], 0)


def test_a_notebook_fetches_as_the_pipeline_says(spark: SparkSession, site: Site) -> None:
    base = site.serve({"/": "<h1>Home</h1>", "/robots.txt": "User-agent: *\nDisallow: /"})
    pipeline = Pipeline.from_yaml(crawl("${BASE}/", TITLE, options="robots: ignore"))
    rows = pipeline.run(spark, {"BASE": base}, CONTEXT)
    assert [row.asDict() for row in rows.collect()] == [{"title": "Home"}]


def test_too_many_failures_fail_the_run_and_say_which(run: Run, site: Site) -> None:
    base = site.serve({"/": "<a href=/a>A</a><a href=/b>B</a><a href=/b>again</a>", "/a": 500})
    stages = "{stage: wgetJoin, args: [a]}", TITLE
    with pytest.raises(RunError, match="2 of 3 addresses could not be fetched") as error:
        run(crawl(f"{base}/", *stages, options="maxFailureRatio: 0.66"))
    assert f"{base}/b: the server answered 404" in str(error.value)
    assert run(crawl(f"{base}/", *stages, options="maxFailureRatio: 0.67")) == []


def test_a_seed_that_fails_fails_the_run(run: Run, site: Site) -> None:
    base = site.serve({})
    with pytest.raises(RunError, match=f"1 of 1 .*{base}/none: the server answered 404"):
        run(crawl(f"{base}/none", TITLE))
