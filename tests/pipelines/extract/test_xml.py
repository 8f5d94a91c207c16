"""XML, RSS and sitemaps as documents with elements."""

from __future__ import annotations

import gzip
import time

import pytest

from pipelines.extract import SelectorFailed
from pipelines.extract.document import Document
from pipelines.extract.kinds import Parser
from pipelines.extract.xml_faults import XmlFault
from pipelines.fetch import Page
from tests.support.pages import document

FEED = """<?xml version="1.0" encoding="utf-8"?>
<rss xmlns:media="http://search.yahoo.com/mrss/" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<title>News</title><atom:link href="/self"/><link>http://shop.test/</link>
<item><title>A &amp; b</title><link>/1</link><pubDate>Mon</pubDate><description><![CDATA[<p>Hi</p>]]></description>
<media:content url="/1.jpg"/></item>
<item><title>C</title><link>/2</link></item></channel></rss>"""
SITEMAP = (
    b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc> http://shop.test/1 </loc></url></urlset>'
)
BOMB = b"".join(
    [
        b'<!DOCTYPE a [<!ENTITY e0 "aaaaaaaaaa"><!ENTITY file SYSTEM "file:///etc/hostname">',
        *(b'<!ENTITY e%d "%s">' % (level + 1, b"&e%d;" % level * 10) for level in range(9)),
        b"]><a><b>x&e9;</b><c>y&file;</c></a>",
    ]
)


@pytest.mark.parametrize(
    ("selector", "texts"),
    [
        ("item > title", ["A & b", "C"]),
        ("channel > link", ["http://shop.test/"]),
        ("item link", ["/1", "/2"]),
        ("pubDate", ["Mon"]),
        ("description", ["<p>Hi</p>"]),
        ("item:contains(C) title", ["C"]),
        ("item:has(pubDate) title, item:last-child title", ["A & b", "C"]),
        ("media|content[url]", [""]),
        ("nope|content", []),
        ("rss > channel > title", ["News"]),
        ("$.item", []),
    ],
)
def test_selectors_find_elements_of_xml(selector: str, texts: list[str]) -> None:
    root = document(FEED, content_type="application/rss+xml").root
    assert [element.text() for element in root.select(selector)] == texts
    first = root.first(selector)
    assert (first.text() if first else None) == (texts[0] if texts else None)


@pytest.mark.parametrize(
    "selector", ["p[w=1]", "p[u$=.jpg]", "p[u^=/a][w=1]", 'p[w="1"], p[t="]=2 x"]', "p[t*='x']", "p[u=/A.JPG i]"]
)
def test_values_of_attributes_need_no_quotes(selector: str) -> None:
    root = document("""<a><p w="1" u="/a.jpg" t="]=2 x"/><p w="2"/></a>""", content_type="text/xml").root
    assert len(root.select(selector)) == 1


def test_elements_of_xml_have_links_attributes_and_segments() -> None:
    root = document(FEED, content_type="text/xml").root
    one, two = root.select("item")
    assert [one.first("> link").link(), two.first("link").absolute("href")] == [  # pyright: ignore
        "http://shop.test/1",
        "http://shop.test/2",
    ]
    assert [each.attr("url") for each in one.select("media|content")] == ["/1.jpg"]
    assert [each.text() for each in one.select(":root > channel > title")] == ["News"]
    assert [each.text() for each in one.select(":scope > title")] == [each.text() for each in one.select("> title")]
    assert one.select(":scope") == []
    assert [each.text() for each in two.select_xpath("title")] == ["C"]
    assert [each.text() for each in root.select_xpath("//media:content/@url")] == ["/1.jpg"]
    assert two.html().endswith("<title>C</title><link>/2</link></item>")
    assert root.html() == FEED


NAMES = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/" xml:lang="de">
<entry xml:base="2026/"><link href="a.html"/>
<media:thumbnail xmlns:media="http://search.yahoo.com/mrss/" url="a.jpg" media:k="1"/></entry>
<entry><link href="b.html"/>
<media:thumbnail xmlns:media="http://search.yahoo.com/mrss" url="b.jpg" media:k="2"/></entry>
<entry><s:x xmlns:s="urn:a&amp;b" xmlns:l="urn:l" l:href="c.html" xml:base="http://other.test/"><x>text</x></s:x></entry></feed>"""


@pytest.mark.parametrize(
    ("css", "xpath", "attribute", "values", "links"),
    [
        ("entry > link", "//entry/link", "href", ["a.html", "b.html"], ["/blog/2026/a.html", "/blog/b.html"]),
        ("media|thumbnail", "//media:thumbnail", "url", ["a.jpg", "b.jpg"], ["/blog/2026/a.jpg", "/blog/b.jpg"]),
        ("*|thumbnail[url]", "//*[@url]", "url", ["a.jpg", "b.jpg"], ["/blog/2026/a.jpg", "/blog/b.jpg"]),
        ("[media|k]", "//*[@media:k]", "media:k", ["1", "2"], ["/blog/2026/1", "/blog/2"]),
        ("s|x", "//s:x", "l:href", ["c.html"], ["http://other.test/c.html"]),
        ("[xml|lang]", "/feed", "xml:lang", ["de"], ["/blog/de"]),
    ],
)
def test_css_xpath_and_attributes_agree_on_names_and_bases(
    css: str, xpath: str, attribute: str, values: list[str], links: list[str]
) -> None:
    root = document(NAMES, content_type="application/atom+xml").root
    urls = [each if "://" in each else f"http://shop.test{each}" for each in links]
    for found in (root.select(css), root.select_xpath(xpath)):
        assert [each.attr(attribute) for each in found] == values
        assert [each.link(attribute) for each in found] == urls
        assert [each.attr(f"abs:{attribute}") for each in found] == urls
    found = root.select_xpath(f"{xpath}/@{attribute}")
    assert [each.text() for each in found] == values
    assert [each.link() for each in found] == urls


def test_an_empty_link_is_its_base_as_in_html() -> None:
    # feedparser 6.0.14, tests/wellformed/base/feed_link_xml_base_iri.xml
    feed = document('<f xml:base="/feed"><l href=""/><m href=" "/><n/></f>', content_type="text/xml").root
    for name, url in (("l", "http://shop.test/feed"), ("m", "http://shop.test/feed"), ("n", None)):
        for found in (*feed.select(name), *feed.select_xpath(f"//{name}")):
            assert (found.absolute("href"), found.link()) == (url, url), name
    page = document('<a href="">x</a>').root
    assert [each.link() for each in (*page.select("a"), *page.select_xpath("//a"))] == ["http://shop.test/a/b.html"] * 2


def test_prefixes_of_nested_elements_and_of_attributes() -> None:
    root = document(NAMES, content_type="application/atom+xml").root
    assert [each.text() for each in root.select("s|x > x")] == ["text"]
    assert [each.link() for each in root.select_xpath("//x/text()")] == ["http://other.test/text"]
    assert [each.link() for each in root.select("s|x")] == ["http://other.test/c.html"]  # as of xlink:href
    assert root.attrs() == {"xml:base": "/blog/", "xml:lang": "de"}
    assert root.attr("lang") == "de"


def test_a_selector_that_xml_does_not_have_fails_the_row() -> None:
    root = document(FEED, content_type="text/xml").root
    for selector in ("title:matches(a)", "item[title~=a]", "item:eq(0)"):
        with pytest.raises(SelectorFailed, match="cannot be used on XML"):
            root.select(selector)


@pytest.mark.parametrize(
    ("body", "content_type", "parser", "links"),
    [
        (SITEMAP, "application/xml", None, ["http://shop.test/1"]),
        (b"<?xml version='1.0'?>" + SITEMAP, None, None, ["http://shop.test/1"]),
        (gzip.compress(SITEMAP), "application/x-gzip", "xml", ["http://shop.test/1"]),
        (gzip.compress(b"<?xml version='1.0'?>" + SITEMAP), "application/octet-stream", None, ["http://shop.test/1"]),
        (gzip.compress(b"<?xml version='1.0'?>" + SITEMAP), "text/xml", None, ["http://shop.test/1"]),
        (gzip.compress(SITEMAP)[:-20], "application/gzip", None, []),
        (SITEMAP, "text/plain", "xml", ["http://shop.test/1"]),
        (SITEMAP, "text/plain", None, []),
        (SITEMAP, "text/html", None, [None]),
        (SITEMAP, "text/html", "xml", ["http://shop.test/1"]),
        (b"no xml", "text/xml", None, []),
        (b'{"a": 1}', "text/xml", None, []),
    ],
)
def test_xml_is_what_its_type_its_beginning_or_the_pipeline_says(
    body: bytes, content_type: str | None, parser: Parser | None, links: list[str | None]
) -> None:
    page: Page = document(body, content_type=content_type).page
    assert [element.link() for element in Document(page, parser).root.select("loc")] == links


def test_a_parser_overrides_the_type_of_html_and_json() -> None:
    page = document("<h1>One</h1>", content_type="text/plain").page
    assert [each.text() for each in Document(page, "html").root.select("h1")] == ["One"]
    page = document('{"a": 1}', content_type="text/html").page
    assert [each.text() for each in Document(page, "json").root.select("$.a")] == ["1"]


AFTER = "<l>/p?id=3&amp;v=c</l><t k='&quot;&lt;'>Salt &amp; Pepper &lt; Café</t></i></r>"


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("a & b", "a & b"),
        ("?a=1&b=2&copy=3", "?a=1&b=2&copy=3"),
        ("a\x0bb&#11;c", "abc"),
        (b"\xff", "\ufffd"),
        ("a<br>b", "ab"),
        ("a <b>b <i>c</b> d", "a b c d"),
        ("a</b>b", "ab"),
        ("Caf&eacute;&nbsp;12 EUR &nope;", "Café 12 EUR &nope;"),
        ('<a k="1" k="2" v=3 w>x</a>', "x"),
        ('<a k="1>x</a>', "x"),
        ('<a k="a < b & c">x</a>', "x"),
        ("a < b && c<d ]]>", "a < b && c<d ]]>"),
        ("<x:a y:b='1'>x</x:a>", "x"),
        ("<img src=a.jpg><![CDATA[<br>&amp;\x0b]]>", "<br>&amp;"),
        ("<a:b:c>x</a:b:c><A>y</a>", "xy"),
    ],
)
def test_a_fault_of_xml_changes_nothing_after_it(before: str | bytes, text: str) -> None:
    start = before if isinstance(before, bytes) else before.encode()
    found = document(b"<r><i><p>" + start + b"</p>" + AFTER.encode(), content_type="text/xml", charset="utf-8")
    assert str(found.repaired).startswith("its XML is not well-formed and was repaired: ")
    assert [each.text() for each in found.root.select("r > i > p")] == [text]
    assert [each.link() for each in found.root.select("r > i > l")] == ["http://shop.test/p?id=3&v=c"]
    salt = found.root.select("r > i > t")
    assert [(each.text(), each.attr("k")) for each in salt] == [("Salt & Pepper < Café", '"<')]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<!DOCTYPE r [<!ENTITY co '&amp; Co &#169;'>]><r><t>Salt &co;</t></r>", "Salt & Co ©"),
        ("<!DOCTYPE r [<!ENTITY co '&amp; Co'>]><r><b>&</b><t>Salt &co;</t></r>", "Salt & Co"),
        ('<!DOCTYPE r PUBLIC "-//W3C//DTD XHTML 1.0//EN" "http://www.w3.org/x.dtd"><r><t>Caf&eacute;</t></r>', "Café"),
        ("Warning: x in <b>y</b><br />\n<?xml version='1.0'?><r><t>a</t></r>", "a"),
        ("<r><t>a</t></r><script>x</script> & more", "a"),
        ("<r>" + "<b>" * 300 + "</b>" * 300 + "<t>a</t></r>", "a"),
        # feedparser 6.0.14, tests/entities: nothing is missing but the last >
        ("<r><t>a=1&b=2&#160;&amp;c</t></r", "a=1&b=2 &c"),
        ("<r><t>a</t></r \n", "a"),
    ],
)
def test_entities_of_the_document_and_what_is_around_it(body: str, text: str) -> None:
    assert [each.text() for each in document(body, content_type="text/xml").root.select("r > t")] == [text]


@pytest.mark.parametrize("end", ["/p?id=3", "/p</l", "/p</l>", "<!-- ", "<![CDATA[a", "<a href='", "/p</l></"])
def test_xml_that_ends_early_is_not_read(end: str) -> None:
    with pytest.raises(XmlFault, match="its XML ends within <"):
        document(f"<r><l>/a</l><l>{end}", content_type="text/xml")


def test_entities_are_bounded_and_read_no_files() -> None:
    began = time.process_time()
    with pytest.raises(XmlFault, match="exceeds a limit: Maximum entity amplification"):
        document(BOMB, content_type="text/xml")
    with pytest.raises(XmlFault, match="exceeds a limit: Maximum entity amplification"):
        document(BOMB.replace(b"<c>", b"<c>&"), content_type="text/xml")
    small = b'<!DOCTYPE a [<!ENTITY file SYSTEM "file:///etc/hostname">]><a><c>y&file;</c></a>'
    assert [each.text() for each in document(small, content_type="text/xml").root.select("c")] == ["y"]
    assert time.process_time() - began < 1


def test_the_repair_of_xml_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.extract.xml_repair._MAX_SECONDS", 0.0)
    with pytest.raises(XmlFault, match="takes more than 0 s to repair"):
        document("<r>" + "<a>&</a>" * 1000 + "</r>", content_type="text/xml")


def test_an_encoding_that_nobody_knows_is_that_of_the_xml() -> None:
    root = document("<a><b>é</b></a>", content_type="text/xml", charset="bogus").root
    assert [each.text() for each in root.select("b")] == ["é"]


def test_an_encoding_that_cannot_be_decoded_is_told() -> None:
    xml = "<?xml version='1.0' encoding='viscii'?><a>é</a>"
    found = document(xml.encode("latin-1"), content_type="text/xml")
    assert found.repaired == "its encoding 'viscii' is not known, so it was read as cp1252"
    for body, charset in ((xml.encode(), None), (xml.encode("cp1251", "replace"), "windows-1251")):
        assert document(body, content_type="text/xml", charset=charset).repaired is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "xpath"),
    [
        (("<div>" * 1900 + "</div>" * 1900) * 4, "//div//div//a"),
        pytest.param("<li><a>x</a></li>" * 100_000, "//a/..", marks=pytest.mark.long),
        pytest.param("<p></p>" * 30_000, "//p[preceding-sibling::p[@x]]", marks=pytest.mark.long),
    ],
)
def test_an_xpath_that_takes_too_long_on_a_page_fails(body: str, xpath: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.extract.parsing._CPU_SECONDS", 1)
    root = document(body).root
    assert root.select_xpath("//title/text()") == []
    with pytest.raises(SelectorFailed, match="takes more than 1 s on the page"):
        root.select_xpath(xpath)
