"""What pages say of themselves: JSON-LD, microdata, OpenGraph and labels."""

from __future__ import annotations

import json

import pytest

from pipelines.inference.metadata import find_stated, read_metadata
from pipelines.inference.prompts import make_question
from tests.support.pages import document
from tests.support.templates import make_pages


def state(html: str, *names: str) -> list[str | None]:
    found = read_metadata(document(html).root)
    return [value.value if (value := find_stated(found, [name])) else None for name in names]


def wrap_linked_data(*objects: object) -> str:
    return "".join(f'<script type="application/ld+json">{json.dumps(each)}</script>' for each in objects)


@pytest.mark.parametrize("template", ["microdata", "table"])
def test_a_page_states_its_values(template: str) -> None:
    (page,) = make_pages(template, 1)
    assert state(page.html, "title", "price", "rating") == [*page.values.values()]


def test_json_ld_is_read_by_the_last_part_of_its_paths() -> None:
    product = {
        "@type": "Product",
        "name": "Lamp",
        "brand": {"name": "Acme"},
        "image": [{"url": "http://a/1.jpg"}],
        "gtin13": "4006381333931",
        "offers": [{"price": 12.5, "priceCurrency": "EUR"}],
        "aggregateRating": {"ratingValue": 4.5},
    }
    html = wrap_linked_data({"@type": "WebSite", "name": "Shop"}, product)
    names = ("title", "brand", "image", "ean", "price", "currency", "rating", "color")
    assert state(html, *names) == ["Lamp", "Acme", "http://a/1.jpg", "4006381333931", "12.5", "EUR", "4.5", None]
    value = read_metadata(document(html).root)["price"]
    assert (value.method, value.path) == ("json-ld", "$.offers.price")


def test_the_objects_of_a_graph_are_found_by_their_identifiers() -> None:
    graph = [
        {"@type": "WebPage", "@id": "#page", "mainEntity": {"@id": "#lamp"}},
        {"@type": "Product", "@id": "#lamp", "name": "Lamp", "brand": {"@id": "#acme"}, "offers": [{"@id": "#offer"}]},
        {"@type": "Brand", "@id": "#acme", "name": "Acme", "owns": {"@id": "#lamp"}},
        {"@type": "Offer", "@id": "#offer", "price": {"@value": "12.50"}},
    ]
    assert state(wrap_linked_data({"@graph": graph}), "title", "brand", "price") == ["Lamp", "Acme", "12.50"]


def test_a_page_about_several_things_states_nothing() -> None:
    both = [{"@type": "Product", "name": "Lamp"}, {"@type": "Product", "name": "Chair"}]
    assert state(wrap_linked_data(*both), "name") == [None]
    items = "".join(f"<li itemscope itemtype=x/Product><b itemprop=name>{name}</b></li>" for name in ("Lamp", "Chair"))
    html = f"<ul>{items}</ul>"
    assert state(html, "name") == [None]
    segment = document(html).root.select("li")[1]
    assert read_metadata(segment)["name"].value == "Chair"


def test_the_name_of_a_part_is_not_the_name_of_the_whole() -> None:
    html = (
        "<div itemscope itemtype=x/Product><div itemprop=brand itemscope><b itemprop=name>Acme</b></div>"
        "<h1 itemprop=name>Lamp</h1></div>"
    )
    assert state(html, "title") == ["Lamp"]


def test_a_label_that_occurs_twice_states_nothing() -> None:
    rows = "<tr><th>Price:</th><td>1</td></tr><tr><th>Size</th><td>2</td></tr><tr><th>Size</th><td>3</td></tr>"
    assert state(f"<table>{rows}</table>", "price", "size") == ["1", None]


@pytest.mark.parametrize(
    ("prompt", "fields", "asked"),
    [
        ("title as title and price as price", ("title", "price"), ("title", "price")),
        ("the product title as name, price (number) as cost", ("name", "cost"), ("product title", "price")),
        ("Extract: event_name, event date", ("event_name", "event_date"), ("event_name", "event date")),
        (["title", "the price as cost"], ("title", "cost"), ("title", "price")),
        ("Extract the price and title", (), ()),
        ("Show it as shown on the page", (), ()),
        (["title", "whatever the page has to say about it"], (), ()),
    ],
)
def test_a_prompt_names_its_columns(prompt: str | list[str], fields: tuple[str, ...], asked: tuple[str, ...]) -> None:
    question = make_question(prompt)
    assert (question.fields, question.asked) == (fields, asked)


@pytest.mark.parametrize(
    "script",
    [
        '<script id="__NEXT_DATA__" type="application/json">{STATE}</script>',
        "<script>window.__STATE__ = {STATE}; start()</script>",
        "<script>var before = 1; self.__APP__={STATE}</script>",
    ],
)
def test_json_state_is_read_where_its_object_has_the_heading(script: str) -> None:
    others = [{"title": "Chair", "price": 3}, {"title": "Bed", "price": 4}]
    data = {
        "site": {"title": "Shop"},
        "props": {"item": {"title": "Lamp", "price": 12.5, "ean": "123"}, "more": others},
    }
    page = f"<h1>Lamp</h1>{script.replace('{STATE}', json.dumps(data))}"
    assert state(page, "title", "price", "ean", "color") == ["Lamp", "12.5", "123", None]
    value = read_metadata(document(page).root)["price"]
    assert (value.method, value.path) == ("state", "$.props.item.price")
    assert state(page.replace("<h1>Lamp", "<h1>Our shop"), "title", "price") == [None, None]


def test_state_that_is_broken_or_ambiguous_states_nothing() -> None:
    two = [{"title": "Lamp", "price": 1}, {"title": "Lamp", "price": 2}]
    assert state(f"<h1>Lamp</h1><script>window.S = {json.dumps(two)}</script>", "price") == [None]
    assert state('<h1>Lamp</h1><script>window.S = {"title": "Lamp", "price": run()}</script>', "price") == [None]
