"""What a hostile page may make a parser do, and that other pages stay as they are."""

from __future__ import annotations

import re
import tracemalloc
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, LexborNode

from pipelines.extract import depth
from tests.support.pages import document

PAGES = sorted((Path(__file__).parent / "jsoup" / "pages").glob("*.html"))
DEEP = {
    "unmatched": b"<div></x>x" * 20_000,
    "quoted": b'<div a="></div>">x' * 20_000,
    "comment": b"<div><!--</div>-->x" * 20_000,
    "script": b"<script><!--<script></script></div>--></script><div>x" * 20_000,
    "title": b"<title></div></title><div>x" * 20_000,
    "svg": b"<svg>" + b"<td>x" * 20_000 + b"</x>" * 20_000,
    "cdata": b"<svg>" + b"<g><![CDATA[></g>]]>x" * 20_000,
    "left svg": b"<svg></p>" + b"<foo/>x" * 20_000,
    "unquoted": b'<div a=b="></div>x' * 20_000 + b'">',
    "name around another": b"<di<b>x</b>v>x</div>" * 20_000,
    "sign around another": b"<div><<b>x</b>/div>x" * 20_000,
    "end around another": b"<di<b>x</b>>x</di>" * 20_000,
    "before closed ones": b"<span>x" * 8100 + b"<dd>x</dd>" * 40_000,
    "end of nothing": b"</><div>x" * 20_000,
    "items in turn": b"<li><dd>" * 20_000,
    "items in turn before others": b"<li><dt>x</x>" * 20_000,
    "groups of options": b"<optgroup><option>" * 20_000,
    "rubies": b"<rp><rt>" * 20_000,
    "blocks out of svg": (b"<svg><section><p>" + b"<div>x" * 400 + b"</section>") * 50,
    "words out of svg": (b"<svg><section>" + b"<span>x" * 400 + b"</section>") * 50,
    "cdata in dropped svg": b"<div>" * 600 + b"<svg><![CDATA[>" + b"<div>" * 20_000 + b"]]>",
    "word ended by a paragraph": (b"<p><label></p>" + b"<span>x" * 400 + b"</label>") * 50,
    "word ended by a heading": (b"<h1><label></h2>" + b"<span>x" * 400 + b"</label>") * 50,
    "button ended by another": (b"<button><button></button>" + b"<div>x" * 400 + b"</button>") * 50,
    "caption without table": (b"<caption>" + b"<div>x" * 400 + b"</caption>") * 50,
    "form in form": (b"<form><form></form>" + b"<span>x" * 400 + b"</form>") * 50,
    "select in select": (b"<select><select>" + b"<div>x" * 400 + b"</select></select>") * 50,
    "title in frameset": b"<frameset><title>" + b"<frameset>" * 20_000,
}
ITEMS = [
    "p",
    "li",
    "dd",
    "dt",
    "option",
    "optgroup",
    "tr",
    "td",
    "th",
    "thead",
    "tbody",
    "tfoot",
    "colgroup",
    "rt",
    "rp",
]
FORMATTING = {
    "many": b"<p>" + b"".join(b"<b a=%d>" % i for i in range(4000)) + b"</p>" + b"<p>x" * 4100,
    "fonts": b"<p>" + b"".join(b"<font a=%d>" % i for i in range(500)) + b"</p>" + b"<p>x" * 40_000,
    "in comments": b"<p>" + b"".join(b"<i a=%d><!--</i>-->" % i for i in range(4000)) + b"</p>" + b"<p>x" * 4100,
    "attributes": b"<p>" + b"".join(b"<b a=%d%s>" % (i, b" b" * 100) for i in range(400)) + b"</p>" + b"<p>x" * 500,
    "end of nothing": b"<p>" + b"".join(b"</><b a=%d>" % i for i in range(4000)) + b"</p>" + b"<p>x" * 4100,
    "sign in quotes": b"<p>" + b"".join(b"<b a='>' b=%d>" % i for i in range(4000)) + b"</p>" + b"<p>x" * 4100,
    "alike for long": b"<p>" + b"".join(b"<i %0200d a=%d>" % (0, i) for i in range(400)) + b"</p>" + b"<p>x" * 500,
}
SPELLINGS = [
    spelled
    for name in ("b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u")
    for spelled in sorted({name, name.upper(), name.capitalize(), name[:-1] + name[-1].upper()})
]
ATTRIBUTES = st.lists(
    st.sampled_from(["=", '"', "'", '="', "='", " ", "\t", "\f", "\v", "/", ">", "<", "\0", "a", " b=", '"c"']),
    max_size=12,
).map(lambda parts: "".join(parts).encode())
TAGS = ["div", "p", "b", "a", "font", "table", "td", "svg", "title", "script", "select", "i", "li", "g"]
SIGNS = ["<b a='>'>", '<i b="x', "<!--", "-->", "<![CDATA[", "]]>", "<g/>", "</", "<", "x", " "]
MARKED = [*(f"<{tag}>" for tag in TAGS), *(f"</{tag}>" for tag in TAGS), *SIGNS]
MARKUP = st.lists(st.sampled_from(MARKED), max_size=60).map(lambda parts: "".join(parts).encode())


ELEMENTS = [*TAGS, "tr", "option", "h1", "form", "style", "template", "object", "br", "plaintext", "math", "desc"]
CLOSED = st.recursive(
    st.sampled_from(["x", "-->", "]]>", "'", '">']),
    lambda inside: st.builds(
        lambda tag, attributes, parts: f"<{tag}{attributes}>{''.join(parts)}</{tag.upper()}>",
        st.sampled_from(ELEMENTS),
        st.sampled_from(["", " a=1", ' b="x y"', "/"]),
        st.lists(inside, max_size=3),
    ),
    max_leaves=6,
)


def bounded(html: bytes) -> bytes:
    """What of a page is parsed."""
    return depth.bounded(html) if depth.may_take_long(html) else html


def deepest(html: bytes) -> int:
    depth = most = 0
    node: LexborNode | None = LexborHTMLParser(html).root
    while node is not None:
        if node.first_child is not None:
            node, depth = node.first_child, depth + 1
            most = max(most, depth)
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
        node = node.next if node is not None else None
    return most


@pytest.mark.parametrize("name", DEEP)
def test_a_page_nests_no_deeper_than_browsers_let_it_and_keeps_its_text(name: str) -> None:
    html = bounded(DEEP[name])
    assert deepest(html) <= 600
    text = document(DEEP[name]).root.text()
    assert text.count("x") >= DEEP[name].count(b">x")


@settings(max_examples=50)
@given(st.lists(st.sampled_from(MARKED), max_size=12), CLOSED)
def test_what_is_closed_leaves_nothing_open_whatever_stands_before_it(before: list[str], closed: str) -> None:
    html = bounded("".join([*before, "<p>", *[closed] * 5000]).encode())
    assert deepest(html) <= 600


@pytest.mark.parametrize(("first", "second"), list(combinations_with_replacement(ITEMS, 2)))
def test_items_that_do_not_end_each_other_are_counted(first: str, second: str) -> None:
    assert deepest(bounded(f"<{first}><{second}>".encode() * 5000)) <= 600


@pytest.mark.parametrize(
    "page",
    [
        b"<ul>" + b"<li>a<ul><li>b<li>c</ul>" * 5000 + b"</ul>",
        b"<dl>" + b"<dt><b>x</b><dd>a<p>b<dd>c" * 9000 + b"</dl>",
        b"<ul>" + b"<li>a<div>x</div><dl><dt>c<dd>d</dl>" * 5000,
        b"<p><ruby>a<rp>(</rp><rt>b</rt><rp>)</rp></ruby>" * 9000,
        b"<p><b>a<i>b</b>c</i>" * 9000,
        b"<select>" + b"<option>a" * 20_000 + b"</select>",
    ],
)
def test_long_lists_without_end_tags_stay_as_they_are(page: bytes) -> None:
    assert bounded(page) == page


@pytest.mark.parametrize(
    "page",
    [
        b"<b>" * 100_000,
        b"<div>" * 100_000,
        b"<svg>" * 100_000,
        b"<p>" * 9000 + b"".join(b"</a%05x>" % i for i in range(100_000)),
        b"<div>" * 9000 + b"".join(b"<a%05x>" % i for i in range(100_000)),
    ],
    ids=["b", "div", "svg", "ends", "names"],
)
def test_what_is_dropped_takes_no_memory(page: bytes) -> None:
    tracemalloc.start()
    try:
        bounded(page)
        assert tracemalloc.get_traced_memory()[1] < 16 * len(page)
    finally:
        tracemalloc.stop()


def test_an_element_that_is_dropped_is_closed_by_its_own_tag() -> None:
    html = bounded(b"<div>" * 6000 + b"x" + b"</div>" * 6000 + b"<p>y")
    assert [node.text() for node in LexborHTMLParser(html).css("body > p")] == ["y"]


def test_an_element_that_is_not_even_remembered_is_not_closed_for_another() -> None:
    items = b"<li><span>a</li>" * 9000 + b"<li><div>b</div></li>" * 1000
    html = bounded(b"<div id=main><ul>" + items + b"</ul><p>after</div><p>out")
    assert [node.text() for node in LexborHTMLParser(html).css("#main > p")] == ["after"]


@pytest.mark.parametrize("name", FORMATTING)
def test_open_formatting_elements_are_not_copied_without_end(name: str) -> None:
    page = FORMATTING[name]
    html = bounded(page)
    assert len(re.findall(rb"<(?:b|i|font) ", html)) <= 64
    root = document(page).root
    assert len(root.select("b, i, font")) < 1_000_000
    assert root.text().count("x") == page.count(b"x")


def test_a_parser_remembers_three_formatting_elements_alike() -> None:
    page = b"<p>" + b"<b class=x>" * 300 + b"</p>" + b"<p>x" * 1000
    assert bounded(page) == page
    assert len(document(page).root.select("b")) == 300 + 3 * 1000


@pytest.mark.parametrize("name", SPELLINGS)
def test_formatting_elements_are_known_however_they_are_written(name: str) -> None:
    for behind in " \t\n\r\f/":
        tags = "".join(f"<{name}{behind}a={i}>" for i in range(1000))
        page = f"<p>{tags}</p>{'<p>x' * 1000}".encode()
        assert len(bounded(page)) < len(page) - 900 * len(f"<{name} a=1>")


@settings(max_examples=50)
@given(ATTRIBUTES)
@example(b'b=a\vc="d e=" f="g h="')
@example(b'b=a"c d=" e')
@example(b'="b c="d')
@example(b"b='\">'")
def test_no_attribute_makes_an_open_formatting_element_look_closed(attributes: bytes) -> None:
    tags = b"".join(b"<b %d %0100d %s>x</b>'\">" % (i, 0, attributes) for i in range(300))
    page = b"<p>" + tags + b"</p>" + b"<p>x" * 1000
    found = LexborHTMLParser(bounded(page)).root
    assert found is not None
    assert len(found.css("b")) < 50_000


@pytest.mark.parametrize("end", [b"<", b"<b", b"<b ", b"<b a", b"<B/", b"</b"])
def test_a_page_may_end_in_a_tag(end: bytes) -> None:
    page = b"<p>x" * 3000 + end
    assert bounded(page) == page


def test_a_tag_has_only_so_many_attributes() -> None:
    page = b"<div " + b" ".join(b"a%d" % i for i in range(40_000)) + b">x</div>"
    [div] = document(page).root.select("div")
    assert list(div.attrs()) == [f"a{i}" for i in range(512)]
    assert div.text() == "x"


@pytest.mark.parametrize("value", [b'">"', b"""'">'""", b""""'>\""""])
def test_a_sign_in_quotes_does_not_hide_a_long_tag(value: bytes) -> None:
    page = b"<div " + b" ".join(b"a%d=%s" % (i, value) for i in range(20_000)) + b">x</div>"
    [div] = document(page).root.select("div")
    assert (len(div.attrs()), div.text()) == (512, "x")


@pytest.mark.parametrize("end", [b"", b"</body>"])
def test_the_tags_of_the_body_together_have_only_so_many_attributes(end: bytes) -> None:
    [body] = document(b"".join(b"<body a%d>x" % i + end for i in range(20_000))).root.select("body")
    assert (len(body.attrs()), body.text().count("x")) == (512, 20_000)


@given(MARKUP)
def test_markup_of_few_tags_stays_as_it_is(html: bytes) -> None:
    assert bounded(html) == html
    padded = html + b" " * 40_000
    assert bounded(padded) == padded


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_as_they_are_written_stay_as_they_are(page: Path) -> None:
    html = page.read_bytes()
    assert bounded(html) == html


def test_large_pages_of_closed_elements_stay_as_they_are() -> None:
    row = b'<tr><td><a href="/x"><img src=x><b>x</b></a><br><svg><title>t</title><path d="x"/></svg><p>y</td></tr>'
    html = b"<table>" + row * 4000 + b"</table>"
    assert bounded(html) == html


@pytest.mark.skipif(not depth._RELIABLE, reason="this Python's possessive groups read too much")
@pytest.mark.parametrize(
    "page",
    [
        b"<ul>" + b"<li><b>x</b> y" * 5000,
        b"<dl>" + b"<dt><code>x</code><dd><p>a<br>b <em>c</em>" * 5000,
        b"<table>" + b"<tr><td><a href=/x><img src=x><b>x</b></a><p>y</td>" * 5000,
    ],
)
def test_what_an_ordinary_page_repeats_is_not_gone_through_tag_by_tag(
    page: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = list[bytes]()

    def whole(tag: re.Match[bytes]) -> bytes:
        tags.append(tag.group())
        return tag.group()

    monkeypatch.setattr("pipelines.extract.depth._with_fewer_attributes", whole)
    assert depth.bounded(page) == page
    assert len(tags) <= 4


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.sampled_from(MARKED), CLOSED), max_size=40),
    st.sampled_from([(512, 64), (8, 4), (3, 2)]),
)
def test_what_is_gone_through_at_once_is_what_each_of_its_tags_would_leave(
    parts: list[str], limits: tuple[int, int]
) -> None:
    def nothing_at_once(walk: object, at: int) -> int:
        return at

    page, (deepest, formatted) = "".join(parts * 3).encode(), limits
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depth, "_DEEPEST", deepest)
        patch.setattr(depth, "_REMEMBERED", 16 * deepest)
        patch.setattr(depth, "_FORMATTED", formatted)
        at_once = depth.bounded(page)
        patch.setattr("pipelines.extract.depth._Walk._calm", nothing_at_once)
        assert at_once == depth.bounded(page)


@pytest.mark.parametrize(
    "sign", [b"<", b"<a ", b"<!--", b'<a b="', b"<b ", b"<a b=", b"<![CDATA[", b"<script><!--<script>", b"<p>"]
)
def test_what_never_ends_is_gone_through_once(sign: bytes) -> None:
    assert len(bounded(sign * ((2 << 20) // len(sign)))) <= 2 << 20
