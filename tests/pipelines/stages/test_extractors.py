"""Extractors: their sources, their options, and what methods make of a column's value."""

from __future__ import annotations

import json
import time
from typing import Any, cast

import pytest

from pipelines.extract import SelectorFailed
from pipelines.extract.extractors import Extractor
from pipelines.extract.linked_data import parse_linked_data
from pipelines.extract.rows import Row
from tests.support.pages import document
from tests.support.pipelines import crawl, find_problem

LINKED_DATA = """{"@graph": [{"@type": "WebPage", "name": "Shop", "mainEntity": {
  "@type": ["https://schema.org/Product"], "name": "Lamp\n", "image": ["a.png", "b.png"],
  "offers": [{"price": "12.50"}, {"price": 9}], "isRelatedTo": {"@type": "Product", "name": "Cup"}}}]}"""
SHOP = f"""<title>Shop</title><script type="application/ld+json">{LINKED_DATA}</script><script>var x</script>
<table><tr><td>a<td>b</table><ul><li><a href=/1>One</a> EAN 4006381 12,50 €<li><a href=/2>Two</a> sold out</ul>"""


def extract(extractor: dict[str, Any], selector: str | None = None) -> object:
    """Return what an extractor reads of the shop's page, or of an element of it."""
    root = document(SHOP).root
    element = root.first(selector) if selector else root
    row = Row({"codes": ["a1", "b", None, "c3"], "name": "no 12"}, (0,), element=element)
    return Extractor.model_validate(extractor).build_worker()(row)


@pytest.mark.parametrize(
    ("value", "price"),
    [
        (2, 2.0),
        (-1.5, -1.5),
        ("£1,09", 1.09),
        (None, None),
        (10**400, None),
        (-(10**400), None),
        (float("-inf"), None),
        (float("inf"), None),
        (float("nan"), None),
    ],
)
def test_a_price_is_a_finite_number_or_none(value: object, price: float | None) -> None:
    read = Extractor.model_validate({"field": "amount", "method": "price"}).build_worker()
    assert read(Row({"amount": value}, (0,))) == price


@pytest.mark.parametrize(
    ("extractor", "value"),
    [
        ({"selector": "li a", "all": True}, ["One", "Two"]),
        ({"selector": "td, li:last-child", "method": "price", "all": True}, []),
        ({"selector": "i", "all": True}, []),
        ({"field": "codes", "all": True, "pattern": r"\d"}, ["1", "3"]),
        ({"field": "name", "pattern": r"\d+", "method": "price"}, 12.0),
        ({"selector": "li", "pattern": r"EAN (\d+)"}, "4006381"),
        ({"selector": "li", "pattern": r"\bzwölf\b|\d+(?= 12)"}, "4006381"),
        ({"selector": "li", "pattern": "none"}, None),
        ({"selector": "li", "method": "price", "pattern": r"EAN \d+ (.*)"}, 12.5),
        ({"selector": "i", "default": "none"}, "none"),
        ({"selector": "i", "default": 0, "method": "price"}, 0.0),
        ({"selector": "title", "default": "none"}, "Shop"),
        ({"field": "missing", "default": True}, "true"),
        ({"selector": "script[type]", "pattern": "Cup"}, "Cup"),
        ({"selector": "script:not([type])"}, ""),
        ({"xpath": "//li[2]/a"}, "Two"),
        ({"xpath": "//li/a/@href", "all": True}, ["/1", "/2"]),
        ({"xpath": "//li/a", "method": "href", "all": True}, ["http://shop.test/1", "http://shop.test/2"]),
        ({"xpath": "/html/body/table/tbody/tr"}, "a b"),
        ({"xpath": "count(//li)"}, "2"),
        ({"xpath": "string(//i)", "default": "none"}, "none"),
        ({"xpath": "//media:content"}, None),
        ({"method": "jsonld", "type": "Product", "path": "name"}, "Lamp\n"),
        ({"method": "jsonld", "type": "schema:Product", "path": "offers.price", "all": True}, ["12.50", "9"]),
        ({"method": "jsonld", "type": "Product", "path": "$.image[1]"}, "b.png"),
        ({"method": "jsonld", "path": "name"}, "Shop"),
        ({"method": "jsonld", "type": "Offer", "path": "price", "default": "none"}, "none"),
        ({"method": "jsonld", "type": "Product", "path": "offers.price", "pattern": r"(\d+)\."}, "12"),
    ],
)
def test_an_extractor_with_options_reads_the_page(extractor: dict[str, Any], value: object) -> None:
    assert extract(extractor) == value


@pytest.mark.parametrize(
    ("selector", "xpath", "values"),
    [("li", "./a", ["One"]), ("tr", "td", ["a", "b"]), ("td", "self::td", ["a"]), ("body", ".//a", ["One", "Two"])],
)
def test_an_xpath_is_evaluated_in_the_segment(selector: str, xpath: str, values: list[str]) -> None:
    assert extract({"xpath": xpath, "all": True}, selector) == values


GRAPH = """{"@graph": [
  {"@type": "WebPage", "@id": "https://shop.test/p", "mainEntity": {"@type": "Product", "@id": "#lamp"}},
  {"@type": "Product", "@id": "https://shop.test/p#lamp", "name": "Lamp", "brand": {"@id": "#acme"},
   "offers": [{"@id": "_:one"}, {"@id": "_:two", "price": 10}, {"@id": "_:one"}], "similar": {"@id": "#lamp"},
   "color": {"@id": "https://other.test/red"}}]}"""
PARTS = """[{"@id": "/p#acme", "@type": "Brand", "name": {"@value": "Acme", "@language": "en"}},
  {"@id": "_:one", "price": {"@type": "xsd:decimal", "@value": "9.50"}},
  {"@id": "_:two", "price": 11, "unit": "EUR"}]"""


@pytest.mark.parametrize(
    ("type_", "path", "values"),
    [
        ("Product", "name", ["Lamp"]),  # the page names it twice
        ("Product", "brand.name", ["Acme"]),
        ("Product", "offers.price", ["9.50", "10"]),
        ("Product", "offers.unit", ["EUR"]),
        ("Product", "similar.similar.name", ["Lamp"]),
        ("Product", "color", ['{"@id": "https://other.test/red"}']),  # not on this page
        ("WebPage", "mainEntity.name", ["Lamp"]),
        ("Brand", "name", ["Acme"]),
        ("Product", "brand['@id']", ["#acme"]),
    ],
)
def test_objects_of_linked_data_are_found_by_their_identifiers(type_: str, path: str, values: list[str]) -> None:
    scripts = "".join(f'<script type="application/ld+json">{text}</script>' for text in (GRAPH, PARTS))
    row = Row({}, (0,), element=document(scripts, url="https://shop.test/p").root)
    extractor = {"method": "jsonld", "type": type_, "path": path, "all": True}
    assert Extractor.model_validate(extractor).build_worker()(row) == values


def test_a_graph_of_too_many_ways_fails() -> None:
    objects = [{"@id": f"#{n}", "@type": "T", "a": [{"@id": f"#{m}"} for m in range(60)]} for n in range(60)]
    row = Row({}, (0,), element=document(f'<script type="application/ld+json">{json.dumps(objects)}</script>').root)
    path = {"method": "jsonld", "type": "T", "all": True, "path": "a.a"}
    assert len(cast("list[object]", Extractor.model_validate(path).build_worker()(row))) == 60 * 60
    with pytest.raises(SelectorFailed, match="has more than 1,000,000 values"):
        Extractor.model_validate(path | {"path": "a.a.a.a.a.a"}).build_worker()(row)


def test_a_row_without_a_page_has_no_default() -> None:
    read = Extractor.model_validate({"selector": "h1", "default": "none"}).build_worker()
    assert read(Row({}, (0,))) is None


def test_a_slow_pattern_of_an_extractor_fails() -> None:
    page = document(f"<p>{'a' * 60}!")
    read = Extractor.model_validate({"selector": "p", "pattern": "(a|aa)+$"}).build_worker()
    with pytest.raises(SelectorFailed, match="takes more than 1 s"):
        read(Row({}, (0,), element=page.root))


@pytest.mark.parametrize(
    ("extractor", "code"),
    [
        ("{selector: a, xpath: //a}", "conflicting-arguments"),
        ("{xpath: '//a['}", "invalid-xpath"),
        ("{selector: a, pattern: '('}", "invalid-pattern"),
        ("{selector: a, method: attrs, pattern: x}", "conflicting-arguments"),
        ("{selector: a, all: true, default: x}", "conflicting-arguments"),
        ("{selector: a, method: price, default: none}", "invalid-argument"),
        ("{selector: a, type: Product}", "conflicting-arguments"),
        ("{selector: a, method: jsonld}", "conflicting-arguments"),
        ("{method: jsonld, path: 'a..b'}", "invalid-selector"),
    ],
)
def test_options_that_do_not_fit_are_problems(extractor: str, code: str) -> None:
    problem = find_problem(crawl("http://a/", f"stage: extract\n  args:\n  - {extractor}"))
    assert (problem.code, problem.line) == (code, 5)


@pytest.mark.parametrize("text", ["{" + " " * 1_000_000 + "x", "/*" * 500_000, "{" + "//" * 500_000, ";" * 1_000_000])
def test_linked_data_takes_time_in_proportion_to_its_length(text: str) -> None:
    began = time.process_time()
    assert parse_linked_data(text) is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "text",
    [
        "%s",
        "<!-- %s -->",
        "//<![CDATA[\n%s\n//]]>\n",
        "/* x */ %s;\n",
        "<![CDATA[%s]]>",
        "/*<![CDATA[*/%s/*]]>*/",
        " %s ; ",
    ],
)
def test_linked_data_may_be_in_a_comment(text: str) -> None:
    assert parse_linked_data(text % '{"a": 1}') == {"a": 1}
