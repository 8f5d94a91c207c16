"""Sitemaps in all the spellings that sites have, and the ends of their times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipelines.extract.sitemaps import Entry, UnreadableSitemap, parse_end, read_entries, read_robots_lines
from pipelines.fetch import Page
from tests.support.pages import document

A, B = "http://shop.test/a", "http://shop.test/b"
SITEMAPS = "http://www.sitemaps.org/schemas/sitemap/0.9"
LISTS = {
    "without a namespace": f"<urlset><url><loc>{A}</loc></url><url><loc>\n{B}\n</loc></url></urlset>",
    "a default namespace": f"<urlset xmlns='{SITEMAPS}'><url><loc>{A}</loc></url><url><loc>{B}</loc></url></urlset>",
    "a prefix": f"<s:urlset xmlns:s='{SITEMAPS}'><s:url><s:loc>{A}</s:loc></s:url><s:url><s:loc>{B}</s:loc></s:url>"
    "</s:urlset>",
    "a prefix per element": f"<s:urlset xmlns:s='{SITEMAPS}'><x:url xmlns:x='{SITEMAPS}'><x:loc>{A}</x:loc></x:url>"
    f"<url xmlns='http://other.test/'><loc>{B}</loc></url></s:urlset>",
    "pictures and languages": f"<urlset xmlns='{SITEMAPS}' xmlns:image='i:' xmlns:xhtml='x:'><url><image:image>"
    f"<image:loc>{B}.png</image:loc></image:image><loc>{A}</loc></url><url><loc>{B}</loc><xhtml:link href='/de'/></url>"
    "</urlset>",
    "RSS 2.0": f"<rss version='2.0' xmlns:atom='http://www.w3.org/2005/Atom'><channel><link>http://shop.test/</link>"
    f"<atom:link rel='self' href='/feed'/><item><atom:link rel='replies' href='/no'/><link>{A}</link></item>"
    f"<item><guid isPermaLink='true'>{B}</guid></item><item><guid isPermaLink='false'>{B}1</guid></item>"
    "</channel></rss>",
    "RSS 1.0": f"<rdf:RDF xmlns:rdf='r:' xmlns='http://purl.org/rss/1.0/'><channel><link>/</link></channel>"
    f"<item><link>{A}</link></item><item><link>{B}</link></item></rdf:RDF>",
    "Atom": f"<a:feed xmlns:a='http://www.w3.org/2005/Atom'><a:link href='/'/><a:entry><a:link rel='edit' href='/no'/>"
    f"<a:link href='{A}'/></a:entry><a:entry><a:link rel='alternate' href='{B}'/></a:entry></a:feed>",
    "Atom with a base": "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://shop.test/x/'>"
    "<entry><link href='../a'/></entry><entry xml:base='/'><link href='b'/></entry></feed>",
    "text": f"\ufeff{A}\r\n{B}\r\nno address\r\n",
}
NONE = {
    "HTML": ("<html><a href=http://shop.test/a>a</a></html>", "it is a page in HTML, not a sitemap"),
    "other XML": ("<r><url><loc>http://shop.test/a</loc></url></r>", "it is XML with the root <r>, not a sitemap"),
    "no address": ("<urlset></urlset>", "it has no address"),
    "a feed without items": ("<rss><channel><link>http://shop.test/</link></channel></rss>", "it has no address"),
    "a sentence": ("Not found", "it is neither XML nor a list of addresses"),
}


def read(body: str | bytes) -> list[Entry]:
    return read_entries(document(body, "http://shop.test/s/map.xml", "text/plain").page)


@pytest.mark.parametrize("body", LISTS.values(), ids=LISTS)
def test_a_sitemap_in_any_spelling_lists_its_pages(body: str) -> None:
    assert [entry.url for entry in read(body)] == [A, B]
    assert not any(entry.is_sitemap for entry in read(body))


@pytest.mark.parametrize(("body", "reason"), NONE.values(), ids=NONE)
def test_what_lists_no_address_is_no_sitemap(body: str, reason: str) -> None:
    with pytest.raises(UnreadableSitemap, match=reason):
        read(body)


def test_an_index_lists_sitemaps_and_entries_have_times() -> None:
    index = "<x:sitemapindex xmlns:x='i:'><x:sitemap><x:loc>/b</x:loc><x:lastmod>2026</x:lastmod></x:sitemap>"
    assert read(f"{index}</x:sitemapindex>") == [Entry(B, "2026", True)]
    item = f"<item><link>{A}</link><pubDate>Sun, 10 May 26 12:00:00 +0200</pubDate></item>"
    assert read(f"<rss><channel>{item}</channel></rss>") == [Entry(A, "2026-05-10T12:00:00+02:00")]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2025", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-05", datetime(2026, 6, 1, tzinfo=UTC)),
        ("2026-12", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-05-10", datetime(2026, 5, 11, tzinfo=UTC)),
        (" 20260510\n", datetime(2026, 5, 11, tzinfo=UTC)),
        ("2026-05-10T12:00+02:00", datetime(2026, 5, 10, 10, 1, tzinfo=UTC)),
        ("2026-05-10T12:00:00", datetime(2026, 5, 10, 12, 0, 1, tzinfo=UTC)),
        ("9999-12-31", None),
        ("May", None),
        ("", None),
    ],
)
def test_a_time_lasts_as_long_as_it_is_written(text: str, end: datetime | None) -> None:
    assert parse_end(text) == end


@pytest.mark.parametrize(
    "body", [b"\xef\xbb\xbfSitemap: /a\rsitemap : /b\r", "\ufeffSITEMAP:/a\n\tSitemap: /b#1".encode("utf-16-le")]
)
def test_a_robots_txt_names_sitemaps_behind_a_bom_and_a_cr(body: bytes) -> None:
    robots: Page = document(body, "http://shop.test/robots.txt", "text/plain").page
    assert read_robots_lines(robots) == [A, B]
