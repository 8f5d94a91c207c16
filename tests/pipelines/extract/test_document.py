from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pipelines.extract import Element, SelectorError, compile_selector
from pipelines.extract.extractors import METHODS, Extractor, Method
from pipelines.extract.rows import Row
from tests.support.pages import URL, document

SHOP = """<!doctype html><html lang=en><head><title>The
 shop</title></head><body>
<ul class="Items">
  <li class="item first" data-id=1><a href="/one?x=1#top" title="First">One</a><b>£1.50</b></li>
  <li class=item data-id=2><a href="two.html">Two</a><b>€2,00</b>
    <ul><li class=sub><a href=sub.html>Sub</a></li></ul></li>
  <li class=item data-id=3><a>Three</a><b>free</b></li>
</ul>
<p id=Note>A&nbsp;&nbsp;note<br>on two   lines</p>
</body></html>"""


class TestSelecting:
    def test_finds_in_document_order(self) -> None:
        root = document(SHOP).root
        assert [element.text() for element in root.select("li a")] == ["One", "Two", "Sub", "Three"]
        first = root.first("li a")
        assert first.text() == "One"

    def test_a_page_is_read_as_it_is_written(self) -> None:
        page = document("<select><selectedcontent></selectedcontent><option>one</select>")
        assert [each.text() for each in page.root.select("selectedcontent, option")] == ["", "one"]

    def test_nothing_is_an_empty_list_and_none(self) -> None:
        root = document(SHOP).root
        assert root.select("table") == []
        assert root.first("table") is None

    def test_inside_an_element_means_its_descendants(self) -> None:
        second = document(SHOP).root.select(".item")[1]
        assert [element.text() for element in second.select("a")] == ["Two", "Sub"]
        assert [element.text() for element in second.select("li")] == ["Sub"]
        assert [element.text() for element in second.select("> a")] == ["Two"]
        assert second.select("body li") == []
        assert second.first("title") is None

    def test_root_selects_from_the_page(self) -> None:
        second = document(SHOP).root.select(".item")[1]
        title = second.first(":root title")
        assert title.text() == "The shop"
        assert len(second.select(":root > body > ul > li")) == 3
        assert second.first(":root") is not None

    def test_a_group_gives_each_element_once_in_document_order(self) -> None:
        root = document(SHOP).root
        found = [element.text() for element in root.select("p, .sub, li:contains(Sub), .sub")]
        assert found == ["Two€2,00 Sub", "Sub", "A note on two lines"]

    def test_a_selector_is_compiled_once(self) -> None:
        assert compile_selector("ul > li") is compile_selector("ul > li")


class TestReading:
    def test_attributes(self) -> None:
        item, link = document(SHOP).root.first(".item"), document(SHOP).root.first("a")
        assert item.attrs() == {"class": "item first", "data-id": "1"}
        assert (item.attr("data-id"), item.attr("DATA-ID"), item.attr("nothing")) == ("1", "1", None)
        assert link.attr("abs:href") == "http://shop.test/one?x=1#top"

    def test_an_attribute_without_value_is_empty_not_missing(self) -> None:
        box = document("<input checked value=''>").root.first("input")
        assert (box.attr("checked"), box.attr("value"), box.attr("name")) == ("", "", None)

    def test_html_of_an_element_has_its_tag_and_of_a_page_is_the_page(self) -> None:
        root = document(SHOP).root
        title = root.first("title")
        assert title.html() == "<title>The\n shop</title>"
        assert root.html() == SHOP

    @pytest.mark.parametrize(
        ("html", "expected"),
        [
            ("<p>a\n\t b</p>", "a b"),
            ("<p> a </p> <p> b </p>", "a b"),
            ("<div>a<div>b</div>c</div>", "a b c"),
            ("<p>a<br>b<br/>c", "a b c"),
            ("<p>a<span>b</span>c", "abc"),
            ("<p>a<i> b </i>c", "a b c"),
            ("<table><tr><td>a<td>b<tr><td>c</table>", "a b c"),
            ("<p>a\u00a0\u00a0b &nbsp; c", "a b c"),
            ("<p>sup\u00aderb\u200bly", "superbly"),
            ("<p>a<!-- x -->b", "ab"),
            ("<p>a</p><script>var x = 1</script><style>p {}</style><p>b</p>", "a b"),
            ("<p>a</p><noscript>b</noscript>", "a b"),
            ("<pre>a\n  b</pre>", "a\n  b"),
            ("<p>x</p><pre>a\n  <b>b  c</b></pre><p>y</p>", "x a\n  b  c y"),
            ("<textarea>a\n b</textarea>", "a\n b"),
            ("<p>a\x0bb", "a\x0bb"),
            ("<p>a\u3000b", "a\u3000b"),
            ("", ""),
        ],
    )
    def test_text_is_the_visible_text(self, html: str, expected: str) -> None:
        body = document("<!doctype html>" + html).root.first("body")
        assert body.text() == expected

    def test_text_inside_preformatted_text_keeps_its_spaces(self) -> None:
        element = document("<pre><code>a  <b>b  c</b></code></pre>").root.first("b")
        assert element.text() == "b  c"


class TestLinks:
    @pytest.mark.parametrize(
        ("href", "link"),
        [
            ("c.html", "http://shop.test/a/c.html"),
            ("/c#x", "http://shop.test/c"),
            (" c ", "http://shop.test/a/c"),
            ("", "http://shop.test/a/b.html"),
            ("//cdn.test/x", "http://cdn.test/x"),
            ("mailto:a@b.test", None),
            ("javascript:void(0)", None),
            ("tel:123", None),
            ("http://[", None),
        ],
    )
    def test_lead_to_http_or_https_or_nowhere(self, href: str, link: str | None) -> None:
        element = document(f'<a href="{href}">x</a>').root.first("a")
        assert element.link() == link

    def test_an_element_without_the_attribute_is_none(self) -> None:
        element = document("<a name=x>x</a><img src=i.png>").root.first("a")
        image = document("<a name=x>x</a><img src=i.png>").root.first("img")
        assert element.link() is None
        assert image.link("src") == "http://shop.test/a/i.png"

    @pytest.mark.parametrize(
        ("head", "link"),
        [
            ("<base href='/x/'>", "http://shop.test/x/c"),
            ("<BASE HREF='http://cdn.test/'>", "http://cdn.test/c"),
            ("<body><p><bAsE href='/x/'>", "http://shop.test/x/c"),
            ("<base target=_blank><base href='y/'>", "http://shop.test/a/y/c"),
            ("<base href='/first/'><base href='/second/'>", "http://shop.test/first/c"),
            ("<base href=''>", "http://shop.test/a/c"),
            ("<base href='http://['>", "http://shop.test/a/c"),
            ("<base href='javascript:x'>", None),
            ("<!-- <base href='/x/'> -->", "http://shop.test/a/c"),
            (f"<base href='/{'x' * 2000}/'>", f"http://shop.test/{'x' * 2000}/c"),
            (f"<base href='/{'x' * 2048}/'>", "http://shop.test/a/c"),
            (f"<base href='/{'ü' * 1000}/'>", "http://shop.test/a/c"),
        ],
    )
    def test_are_relative_to_the_base(self, head: str, link: str | None) -> None:
        element = document(f"<head>{head}</head><a href=c>x</a>").root.first("a")
        assert element.link() == link

    def test_are_relative_to_the_address_of_the_page_however_long_it_is(self) -> None:
        element = document("<a href=c>x</a>", url=f"http://shop.test/{'x' * 5000}/b").root.first("a")
        assert element.link() == f"http://shop.test/{'x' * 5000}/c"


class TestExtracting:
    @pytest.mark.parametrize(
        ("method", "argument", "expected"),
        [
            ("text", None, "One"),
            ("code", None, '<a href="/one?x=1#top" title="First">One</a>'),
            ("html", None, '<a href="/one?x=1#top" title="First">One</a>'),
            ("attr", "title", "First"),
            ("attr", "rel", None),
            ("attrs", None, {"href": "/one?x=1#top", "title": "First"}),
            ("href", None, "http://shop.test/one?x=1#top"),
            ("src", None, None),
            ("price", None, None),
        ],
    )
    def test_each_method(self, method: str, argument: str | None, expected: object) -> None:
        link = document(SHOP).root.first("a")
        assert link is not None
        assert METHODS.find(method).thing.of_element(link, argument) == expected

    @pytest.mark.parametrize("method", ["text", "price"])
    @pytest.mark.parametrize("selector", ["b", "li > b", ".item:contains(Two) b", ":root b", "i"])
    def test_a_column_has_the_methods_value_of_the_first_match(self, method: str, selector: str) -> None:
        read = Extractor.model_validate({"selector": selector, "method": method}).build_worker()
        page = document(SHOP).root
        for element in (page, *page.select("li")):
            first = element.first(selector)
            assert read(Row({}, (0,), element=element)) == (
                METHODS.find(method).thing.of_element(first, None) if first else None
            )

    def test_a_column_is_null_where_there_are_no_elements(self) -> None:
        read = Extractor.model_validate({"selector": "b"}).build_worker()
        rows = (Row({}, (0,)), Row({}, (0,), element=document(b'{"b": 1}', content_type="application/json").root))
        assert [read(row) for row in rows] == [None, None]

    def test_a_method_made_from_another_reads_in_its_own_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def louder(element: Element, argument: str | None) -> str:
            return element.text().upper()

        def loud(extractor: Extractor) -> Method:
            return replace(METHODS.find("text").thing, of_element=louder)

        monkeypatch.setattr(Extractor, "_find_method", loud)
        read = Extractor.model_validate({"selector": "b"}).build_worker()
        assert read(Row({}, (0,), element=document("<b> q </b>").root)) == "Q"

    def test_a_method_may_ask_for_the_node_where_there_is_none(self) -> None:
        json = document(b'{"b": 1}', content_type="application/json").root
        value = json.first("$.b")
        assert value is not None
        assert [(each.node, each.is_page) for each in (json, value)] == [(None, True), (None, False)]

    @pytest.mark.parametrize("method", ["text", "price"])
    def test_a_row_may_be_based_on_an_element_of_a_plugin(self, method: str) -> None:
        class Mirror(Element):
            def first(self, selector: object) -> Element | None:
                return document("<b>2</b>").root

        read = Extractor.model_validate({"selector": "b", "method": method}).build_worker()
        assert read(Row({}, (0,), element=Mirror(document("")))) == (2.0 if method == "price" else "2")

    def test_an_address_asked_for_twice_over_is_of_an_attribute_so_called(self) -> None:
        root = document("<a abs:href=x href=y>z</a>").root
        assert [root.select(f"[abs:abs:href$={end}]") != [] for end in "xy"] == [True, False]
        assert root.select("a[" + "abs:" * 2000 + "href]") == []
        assert METHODS.find("attr").thing.of_element(root, "abs:" * 2000 + "href") is None

    def test_of_a_page(self) -> None:
        root = document(SHOP).root
        assert METHODS.find("code").thing.of_element(root, None) == SHOP
        assert METHODS.find("attr").thing.of_element(root, "lang") == "en"
        assert METHODS.find("href").thing.of_element(root, None) is None

    def test_an_address_of_another_kind_is_given_as_it_is(self) -> None:
        link = document("<a href='mailto:a@b.test'>x</a>").root.first("a")
        assert link is not None
        assert METHODS.find("href").thing.of_element(link, None) == "mailto:a@b.test"


class TestWhatIsNotHtml:
    @pytest.mark.parametrize(
        ("content_type", "body"),
        [
            ("application/json", b'{"a": "<b>1</b>"}'),
            ("text/plain", b"<p>not a paragraph"),
            ("text/csv", b"a,b"),
            (None, b"just text"),
            (None, b""),
        ],
    )
    def test_has_no_elements_but_its_text(self, content_type: str | None, body: bytes) -> None:
        page = document(body, content_type=content_type)
        assert not page.is_html
        assert page.root.select("*") == []
        assert page.root.first("p") is None
        assert METHODS.find("code").thing.of_element(page.root, None) == body.decode()
        assert (page.root.attrs(), page.root.attr("x"), page.root.link()) == ({}, None, None)

    @pytest.mark.parametrize("body", [b"\x89PNG\r\n\x1a\n\x00\x00", bytes(range(256)) * 10, b"%PDF-1.7\xff\xfe"])
    def test_bytes_that_are_no_text_do_no_harm(self, body: bytes) -> None:
        for content_type in ("image/png", "text/html", None):
            root = document(body, content_type=content_type).root
            assert isinstance(root.text(), str)
            assert isinstance(root.html(), str)
            assert root.first("table") is None


class TestBadPages:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"\x00",
            b"<p>a\x00b</p>",
            b"<" * 10_000,
            b"<p" * 10_000,
            b"<p a=" + b"x" * 1_000_000,
            b"<!--" + b"-" * 100_000,
            b"<table>" * 5_000 + b"x",
            b"&#x0;&#xD800;&#x110000;&bogus;",
            b"<svg><foreignObject><math><p>x",
            b"<template><p>x</p></template>",
            b"<plaintext><p>x",
            "\ud83d".encode("utf-16-le", "surrogatepass"),
        ],
    )
    def test_are_parsed_all_the_same(self, body: bytes) -> None:
        root = document(body).root
        assert isinstance(root.text(), str)
        assert root.first("html") is not None
        assert isinstance(root.select("p:has(b), :contains(x) > a"), list)

    @pytest.mark.parametrize("tag", ["div", "b", "span", "table", "ul><li", "a", "font", "p><div"])
    def test_two_thousand_levels_are_read_at_once(self, tag: str) -> None:
        body = f"<{tag}>" * 2000 + "deep"
        began = time.process_time()  # not what other processes take
        root = document(body).root
        assert root.text() == "deep"
        assert isinstance(root.select("div:contains(deep)"), list)
        assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the selector is empty"),
        ("   ", "the selector is empty"),
        ("p >", "it ends where an element is expected"),
        ("p, ", "it ends where an element is expected"),
        (", p", "',' at character 1 is not expected there"),
        ("a,,b", "',' at character 3 is not expected there"),
        ("p > > b", "'>' at character 5 is not expected there"),
        ("p[href", "'[' at character 2 is never closed by ']'"),
        ("p:contains(a", "'(' at character 11 is never closed by ')'"),
        ("p:contains()", ":contains() has nothing in its parentheses"),
        ("p..b", "there is no name of a class after '.'"),
        ("#", "there is no name of an id after '#'"),
        ("p:", "there is no name of a pseudo-class after ':'"),
        ("p:hoover", "':hoover' is not a pseudo-class that is known"),
        ("p:hoover(x)", "':hoover()' is not a pseudo-class that is known"),
        ("[=x]", "[=x] has no attribute name"),
        ("[x=]", "[x=] has no value to compare with"),
        ("p:eq(x)", ":eq(x) needs a number, counted from 0"),
        ("p:nth-child(2x)", "'2x' is not a position such as 3, odd or 2n+1"),
        ("p:matches([)", "the regular expression '[' does not parse"),
        ("a)", "')' at character 2 is not expected there"),
        ("p { color: red }", "'{' at character 3 is not expected there"),
        ("//div[@class]", "'/' at character 1 is not expected there"),
        ("::text", "there is no name of a pseudo-class after ':'"),
        (":not(" * 200 + "p" + ")" * 200, "nested more than 32 deep"),
    ],
)
def test_a_selector_that_does_not_parse_says_why(text: str, sentence: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(text)
    assert sentence in str(caught.value)


def test_the_base_of_a_page_is_its_final_address() -> None:
    assert document("<p>").base_url == URL
