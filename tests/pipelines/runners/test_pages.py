"""Pages of each kind, which both runners and a trial read alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.extract.rows import describe_malformed
from tests.support.pipelines import TITLE, crawl
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import open_trial, try_rows

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


HTML = b"<!DOCTYPE html><meta charset=utf-8><h1>One</h1>"
XHTML = b"<html xmlns='http://www.w3.org/1999/xhtml'><head><script src='x'/></head><body><h1>One</h1></body></html>"
HTML_TYPES = ("text/html, text/html; charset=utf-8", "text/html charset=utf-8", "html", "*/*", "unknown/unknown")


def test_pages_are_read_by_their_type_or_their_beginning(runners: Runners, site: Site) -> None:
    types = {f"/{number}": each for number, each in enumerate(HTML_TYPES)} | {"/x": "application/xhtml+xml"}
    base = site.serve({path: XHTML if path == "/x" else HTML for path in types}, types)
    urls = ", ".join(f"{base}{path}" for path in types)
    plan = runners.plan(f"fetch: {{url: [{urls}]}}\npipeline: [{TITLE}]")
    outcome = runners.assert_equal(plan)
    assert outcome.preview == [{"title": "One"}] * len(types)
    assert not outcome.malformed
    assert try_rows(plan) == outcome.preview


def test_lines_of_json_are_rows_and_broken_json_is_an_error(runners: Runners, site: Site) -> None:
    pages = {"/lines": '{"n": 1}\n{"n": 2}\n', "/cut": '{"n": 1}\n{"n'}
    base = site.serve(pages, dict.fromkeys(pages, "application/x-ndjson"))
    plan = runners.plan(f"""
fetch: {{url: [{base}/lines, {base}/cut]}}
pipeline: [{{stage: flatSelect, args: ["$[*]", {{selector: $.n, as: n}}]}}]
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
""")
    outcome = runners.assert_equal(plan)
    assert [row["n"] for row in outcome.preview] == [1, 2, None]
    assert "its JSON cannot be read: line 2" in str(outcome.preview[2]["_error"])


def test_a_file_that_is_not_of_its_type_is_downloaded_with_a_warning(runners: Runners, site: Site) -> None:
    base = site.serve({"/cut.json": '{"n'}, {"/cut.json": "application/json"})
    stages = f"{{stage: download, args: ['{base}/cut.json']}}, {{stage: extract, args: [{{selector: $.n, as: n}}]}}"
    plan = runners.plan(f"pipeline: [{stages}]\nspindle: {{keepColumns: [_error]}}")
    outcome = runners.assert_equal(plan)
    assert [(row["_bytes"], row["n"], row["_error"]) for row in outcome.preview] == [(3, None, None)]
    fault = f"{base}/cut.json: its JSON cannot be read: Unterminated string starting at:"
    assert [first.partition(" line")[0] for _, first in outcome.malformed] == [fault]
    assert [(row["_bytes"], row["n"]) for row in try_rows(plan)] == [(3, None)]


LINK = "?q=%EB%E0%EC%EF%E0"  # лампа in windows-1251
SHOP = "<head><title>Лампы</title>{}<meta charset=windows-1251></head><a href='/find?q=лампа'>лампа</a>"
ABOUT = "<meta name=description content='Ask for charset=windows-1251'><h1>Über</h1>"
ENCODED_PAGES = {
    "/shop": SHOP.format(" " * 2000).encode("windows-1251"),
    f"/find{LINK}": "<h1>Lamp</h1>",
    "/about": ABOUT.encode(),
    "/api": '{"name": "Über"}'.encode(),
    "/rows.csv": "id,name\n1,Über\n".encode("utf-16"),
    "/robots.txt": "\ufeffUser-agent: *\nDisallow: /no".encode("utf-16-le"),
    "/no": "<h1>no</h1>",
}
ENCODED_TYPES = {"/api": "application/json; charset=windows-1252", "/rows.csv": "text/csv; charset=iso-8859-1"}


def test_pages_are_read_in_their_encoding(runners: Runners, site: Site) -> None:
    base = site.serve(ENCODED_PAGES, ENCODED_TYPES)
    plan = runners.plan(f"""
fetch: {{url: [{base}/shop, {base}/about, {base}/api, {base}/no]}}
pipeline:
- stage: extract
  args:
  - {{selector: "title, h1", as: title}}
  - {{selector: $.name, as: name, method: text}}
- {{stage: join, args: [a]}}
- {{stage: extract, args: [{{selector: h1, as: linked}}]}}
spindle: {{keepColumns: [_url], maxFailureRatio: 1}}
""")
    wanted = [
        {"title": "Лампы", "name": None, "linked": "Lamp", "_url": f"{base}/find{LINK}"},
        {"title": "Über", "name": None, "linked": None, "_url": None},
        {"title": None, "name": "Über", "linked": None, "_url": None},
    ]
    outcome = runners.assert_equal(plan)
    assert [row for row in outcome.preview if row["title"] or row["name"]] == wanted
    assert "/no" not in (outcome.requests or {})
    with open_trial(plan) as trial:
        tried = [{**row.values, "_url": row.fetched.url} for row in trial.iter_rows()]
    assert [row for row in tried if row["title"] or row["name"]] == wanted


def test_the_byte_order_mark_of_a_csv_page_wins(runners: Runners, site: Site, tmp_path: Path) -> None:
    base = site.serve(ENCODED_PAGES, ENCODED_TYPES)
    plan = runners.plan(f"pipeline: [{{stage: load_csv, args: ['{base}/rows.csv']}}]")
    assert runners.run_on_spark(plan).preview == [{"id": "1", "name": "Über"}]


PAGE = """<h1>Lamp<span hidden> (old)</span></h1><p class=price><i style="display:none">99 €</i>1<ins>2</ins>,50 €</p>
<select><option>S<option>M</select>
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" srcset="/s.jpg 320w, /l.jpg 640w">
<script type="application/ld+json">{"@graph": [{"@type": "Brand", "@id": "#b", "name": "Acme"},
{"@type": "Product", "name": "Lamp", "brand": {"@id": "#b"}}]}</script>"""
FEED = "<rss><channel><item><pubDate>Wed, 02 Oct 02 08:00:00 EST</pubDate></item></channel></rss>"


def test_pages_are_read_as_people_see_them(runners: Runners, site: Site) -> None:
    base = site.serve({"/": PAGE, "/feed": FEED}, {"/feed": "application/rss+xml"})
    plan = runners.plan(f"""
fetch: {{url: "{base}/"}}
pipeline:
- stage: extract
  args:
  - {{selector: h1, as: title}}
  - {{selector: .price, method: price}}
  - {{xpath: "//p[@class='price']", as: shown}}
  - {{selector: select, as: sizes}}
  - {{selector: img, method: src, as: image}}
  - {{xpath: //img, method: src, as: same_image}}
  - {{method: jsonld, type: Product, path: brand.name, as: brand}}
- {{stage: fetch, args: ["{base}/feed"]}}
- {{stage: extract, args: [{{selector: pubDate, cast: timestamp, as: published}}]}}
""")
    wanted = {
        "title": "Lamp",
        "price": 12.5,
        "shown": "12,50 €",
        "sizes": "S M",
        "image": f"{base}/l.jpg",
        "same_image": f"{base}/l.jpg",
        "brand": "Acme",
        "published": datetime(2002, 10, 2, 13, tzinfo=UTC),
    }
    (found,) = runners.assert_equal(plan).preview
    assert {**found, "published": wanted["published"]} == wanted
    assert str(found["published"]).startswith("2002-10-02")
    assert try_rows(plan) == [wanted]


def test_a_prompt_reads_the_graph_and_the_image_that_people_see(runners: Runners, site: Site) -> None:
    base = site.serve({"/": f"<div itemscope itemtype=x/Thing>{PAGE.replace('<img', '<img itemprop=image')}</div>"})
    plan = runners.plan(crawl(f"{base}/", "{stage: iextract, args: ['Extract: name, brand, image']}"))
    assert runners.assert_equal(plan).preview == [{"name": "Lamp", "brand": "Acme", "image": f"{base}/l.jpg"}]


XML_FEED = "<rss><item><title>%s</title><link>/p?id=3&amp;v=c</link></item>%s"
XML_PAGES = {
    "/good": XML_FEED % ("Salt &amp; Pepper", "</rss>"),
    "/bare": XML_FEED % ("Salt & Pepper", "</rss>"),
    "/cut": XML_FEED % ("Salt", "<item><link>/p?id"),
    "/text": "no feed today",
}


def test_xml_that_is_not_well_formed_is_repaired_and_named(runners: Runners, site: Site) -> None:
    base = site.serve(XML_PAGES, dict.fromkeys(XML_PAGES, "application/rss+xml"))
    plan = runners.plan(f"""
fetch: {{url: [{", ".join(f"{base}{path}" for path in XML_PAGES)}]}}
pipeline:
- {{stage: extract, args: [{{selector: title, as: title}}, {{selector: link, method: href, as: url}}]}}
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
""")
    outcome = runners.assert_equal(plan)
    read = {"title": "Salt & Pepper", "url": f"{base}/p?id=3&v=c", "_error": None}
    failed = {"title": None, "url": None}
    wanted = [
        read,
        read,
        failed | {"_error": "the page could not be read: its XML ends within <link>"},
        failed | {"_error": "the page could not be read: its XML has no element"},
    ]
    fault = "its XML is not well-formed and was repaired: xmlParseEntityRef: no name, line 1, column 25"
    assert outcome.preview == wanted
    assert outcome.malformed == [(1, f"{base}/bare: {fault}")]
    sentence = f"1 page is malformed: {base}/bare: {fault}"
    assert describe_malformed(*outcome.malformed[0]) == sentence
    with open_trial(plan) as trial:
        tried = [{**row.values, "_error": row.fetched.error} for row in trial.iter_rows()]
    assert tried == wanted
    assert next(iter(trial.counts.values())).malformed == (1, f"{base}/bare: {fault}")
