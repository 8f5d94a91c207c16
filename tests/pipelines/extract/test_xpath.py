"""XPath on HTML: the elements that CSS finds, in the tree of HTML's parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.extract import Element, HtmlElement, html_trees
from pipelines.extract.extractors import Extractor
from pipelines.extract.patterns import SelectorFailed
from pipelines.extract.rows import Row
from tests.support.pages import document

PAGES = sorted((Path(__file__).parent / "jsoup" / "pages").glob("*.html"))
ODD = """<svg viewBox="0 0"><use xlink:href="#a"/><linearGradient id=g /></svg><fb:like data-x=1>like</fb:like>
<p xml:lang=de @click=go :class=x v-on:click=y {{a}} "b=1 title="a\x0cb">x\x0cy\x01z<!-- a--b- --></p>
<table>stray<form><tr><td>1</table><b>x<p>y</b>z</p><template><i>t</i></template><script>var a = '<b>' && 1</script>
<div>Salt &amp; Pepper &lt;3</div>"""


def nodes(elements: list[Element]) -> list[int]:
    return [each.node.mem_id for each in elements if isinstance(each, HtmlElement)]


@pytest.mark.parametrize("html", [*(path.read_bytes() for path in PAGES), ODD], ids=[*(p.name for p in PAGES), "odd"])
@pytest.mark.parametrize(
    ("css", "xpath"),
    [
        ("*", "//*"),
        ("p", "//p"),
        ("a[href]", "//a[@href]"),
        ("a > *", "//a/*"),
        ("p p, p div, b p", "//p//p | //p//div | //b//p"),
        ("td > *", "//td/*"),
        ("table tr:first-child > td", "//table//tr[not(preceding-sibling::*)]/td"),
        ("li ~ li", "//li/following-sibling::li"),
        ("template > *", "//template/*"),
        ("[class~=^.]", "//*[@class and @class != '']"),
    ],
)
def test_an_xpath_finds_the_elements_of_css(html: bytes | str, css: str, xpath: str) -> None:
    root = document(html).root
    selected, found = root.select(css), root.select_xpath(xpath)
    assert nodes(found) == nodes(selected)
    assert len(found) == len(selected)
    assert [each.html() for each in found[:50]] == [each.html() for each in selected[:50]]


@pytest.mark.parametrize(
    ("html", "xpath", "values"),
    [
        ("<picture><source srcset=a><img src=/i.png></picture>", "//picture/img/@src", ["/i.png"]),
        ("<a href=/1><table><tr><td>x</table></a>", "//a//td", ["x"]),
        ("<ul><form><li>1<li>2</form></ul>", "//ul//li", ["1", "2"]),
        ("<a href=/1><div>x</div></a>", "//a/div", ["x"]),
        ("<table><tr><td>1</table>", "/html/body/table/tbody/tr/td", ["1"]),
        ("<p>a<main>b</main>", "//main/parent::body/p", ["a"]),
        ("<table>stray<tr><td>1</table>", "//table/preceding-sibling::text()", ["stray"]),
        ("<button><h3>a</h3></button>", "//button/h3", ["a"]),
        ("<p>a<search>b</search>", "//search/preceding-sibling::p", ["a"]),
        ("<div><template><p>x</template></div>", "//div/template/p", ["x"]),
        (ODD, "//use/@xlink:href", ["#a"]),
        (ODD, "//svg/@viewBox | //linearGradient/@id", ["0 0", "g"]),
        (ODD, "//fb:like/@data-x | //*[name()='fb:like']", ["like", "1"]),
        (ODD, "//p/@xml:lang | //p/@v-on:click | //p/@*[name()='@click']", ["de", "go", "y"]),
        (ODD, "//p/@title | //p[@title]/text()", ["a b", "x y z"]),
        (ODD, "//comment()", ["a--b-"]),
        (ODD, "//script", ["var a = '<b>' && 1"]),
        (ODD, "//div[. = 'Salt & Pepper <3']", ["Salt & Pepper <3"]),
        (ODD, "//nothing:here", []),
    ],
)
def test_an_xpath_reads_the_tree_of_html(html: str, xpath: str, values: list[str]) -> None:
    assert [each.text() for each in document(html).root.select_xpath(xpath)] == values


def test_the_attribute_of_an_element_is_that_of_css() -> None:
    root = document(ODD).root
    found = (root.first("svg"), root.select_xpath("//svg")[0])
    assert [each.attr("viewBox") for each in found if each] == ["0 0", "0 0"]


def test_methods_read_what_an_xpath_has_found() -> None:
    def read(html: str, **extractor: object) -> object:
        return Extractor.model_validate(extractor).build_worker()(Row({}, (0,), element=document(html).root))

    assert read("<p>19<sup>99</sup> €</p>", xpath="//p", method="price") == 19.99
    assert read("<p class=a>x</p>", xpath="//p", method="code") == '<p class="a">x</p>'
    assert read("<a href=/x>x</a>", xpath="//a", method="href") == "http://shop.test/x"
    assert read("<script>id = 7;</script>", xpath="//script", pattern=r"id = (\d+)") == "7"


def test_a_segment_is_a_tree_of_its_own() -> None:
    item = document("<ul><li>1<b>2</b><li>3</ul>").root.select("li")[0]
    assert [each.text() for each in item.select_xpath("//li | //b | ./ancestor::*")] == ["12", "2"]


def test_a_tree_has_a_greatest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_trees, "_MAX_ELEMENTS", 100)
    assert document("<b>" * 90).root.select_xpath("//b")
    with pytest.raises(SelectorFailed, match="more than 100 elements"):
        document("<b>" * 100).root.select_xpath("//b")


def test_deep_trees_are_copied() -> None:
    root = document("<div>" * 5000 + "x").root
    assert [each.text() for each in root.select_xpath("//div[not(div)]")] == ["x"]
