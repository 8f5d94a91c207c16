"""JSON pages: values by path, read like elements."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from pipelines.extract import Document, SelectorError, compile_selector
from pipelines.extract.extractors import METHODS
from pipelines.fetch import Page

BODY = """{"data": {"items": [{"name": "Lamp", "price": 12.5, "url": "/lamp", "tags": ["a", "b"], "old": null},
 {"name": "Tasse für\\tTee", "price": "1.299,00 \\u20ac", "url": "https://x.example/cup",
  "in stock": true}], "n": 2}}"""


def page(body: str, kind: str = "application/json") -> Document:
    url = "https://shop.example/api/list"
    return Document(Page(url, url, 200, None, kind, "utf-8", body.encode(), datetime.now(UTC)))


@pytest.mark.parametrize(
    ("path", "method", "value"),
    [
        ("$.data.items[0].name", "text", "Lamp"),
        ("$['data'][\"items\"][-1].name", "text", "Tasse für\tTee"),
        ("$.data.items[*].name", "text", "Lamp"),
        ("$.data.*[1].name", "text", "Tasse für\tTee"),
        ("$.data.n", "text", "2"),
        ("$.data.items[1]['in stock']", "text", "true"),
        ("$.data.items[0].tags", "code", '["a", "b"]'),
        ("$.data.items[0].price", "price", 12.5),
        ("$.data.items[1].price", "price", 1299.0),
        ("$.data.items[0].url", "href", "https://shop.example/lamp"),
        ("$.data.items[0]", "src", None),
    ],
)
def test_a_value_is_read_like_an_element(path: str, method: str, value: object) -> None:
    found = page(BODY).root.first(path)
    assert found is not None
    assert METHODS.find(method).thing.of_element(found, None) == value


# after the compliance suite of RFC 9535 (jsonpath-rfc9535 1.3.0): names in quotes, white space, indexes
NAMES = {"☺": 1, 'a"b': 2, "a'b": 3, "a\\b": 4, "a/b": 5, "a\nb": 6, "𝄞": 7, "": 8, "a": [9], "_1é": 10}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.☺", 1),
        (r"$['\u263A']", 1),
        (r"""$["a\"b"]""", 2),
        ("""$['a"b']""", 2),
        (r"$['a\'b']", 3),
        ('$["a\'b"]', 3),
        (r"$['a\\b']", 4),
        (r"$['a\/b']", 5),
        (r'$["a\nb"]', 6),
        (r"$['\uD834\uDD1E']", 7),
        ("$['']", 8),
        ("$ .a [ 0 ]", 9),
        ("$\n\t['a']\r\n[\t-1\n]", 9),
        ("$._1é", 10),
    ],
)
def test_names_and_indexes_are_those_of_the_standard(path: str, value: int) -> None:
    found = page(json.dumps(NAMES)).root.first(path)
    assert found is not None
    assert found.text() == str(value)


@pytest.mark.parametrize(
    "step",
    [
        *("[01]", "[-0]", "[-01]", "[9007199254740992]", "[-9007199254740992]", f"[{'9' * 5000}]", "[1.0]", "[\u0661]"),
        *(
            r"""['a\"b']""",
            r"""["a\'b"]""",
            r"['\x']",
            r"['\u12']",
            r"['\uD834']",
            r"['\uDD1E\uD834']",
            "['a\tb']",
            "['a",
        ),
        *(". a", ".1", ".a b", ".a ", "..a", ".", "[]", "[a]"),
    ],
)
def test_a_path_that_is_none_of_the_standard_is_refused(step: str) -> None:
    with pytest.raises(SelectorError):
        compile_selector(f"$.b{step}")


def test_members_are_attributes() -> None:
    found = page(BODY).root.first("$.data.items[0]")
    assert found is not None
    assert METHODS.find("attr").thing.of_element(found, "name") == "Lamp"
    attrs = METHODS.find("attrs").thing.of_element(found, None)
    assert attrs == {"name": "Lamp", "price": "12.5", "url": "/lamp", "tags": '["a", "b"]'}
    assert METHODS.find("attr").thing.of_element(found, "old") is None
    assert found.link("url") == "https://shop.example/lamp"


def test_a_top_level_array_means_its_items() -> None:
    items = page(BODY).root.select("$.data.items")
    assert [item.first("$.price").text() for item in items if item.first("$.price")] == ["12.5", "1.299,00 €"]  # type: ignore[union-attr]
    assert [item.text() for item in page("[1, null, [2]]").root.select("$[*]")] == ["1", "[2]"]


@pytest.mark.parametrize(
    "path", ["$.data.none", "$.data[0]", "$.data.items[2]", "$.data.items.name", "$.data.items[0].old"]
)
def test_missing_records_are_not_found(path: str) -> None:
    assert page(BODY).root.first(path) is None
    assert page(BODY).root.select(path) == []


@pytest.mark.parametrize(
    "document",
    [page("no json"), page("[" * 100_000), page(BODY, "text/html"), page("1" * 10_000), page("")],
    ids=["text", "deep", "html", "digits", "empty"],
)
def test_other_pages_have_no_values(document: Document) -> None:
    assert document.root.first("$.data") is None
    assert document.root.select("$[*]") == []


def test_json_has_no_elements_and_its_text_is_its_code() -> None:
    document = page("\ufeff" + BODY)
    assert document.root.first("body") is None
    assert document.root.first("$.data.n") is not None
    assert METHODS.find("code").thing.of_element(page(BODY).root, None) == BODY


@pytest.mark.parametrize("path", ["$.", "$[", "$.a[", "$.a[x]", "$.a..b", "$.a[1:2]", "$.a[?(@.x)]", "$.a b", "$['a]"])
def test_a_path_that_does_not_parse_says_where(path: str) -> None:
    with pytest.raises(SelectorError, match=r"at character \d+ is no \.name, \[index\], \['name'\] or \*"):
        compile_selector(path)


def test_values_nested_as_deep_as_they_can_be_read_are_written_or_left_out() -> None:
    """Reading may come further than writing does from deeper in the program."""

    def deeper(frames: int, document: Document) -> str:
        return deeper(frames - 1, document) if frames else document.root.select("$.a")[0].text()

    for levels in range(880, 1000):
        document = page('{"a":[' + "[" * levels + "]" * levels + "]}")
        if document.json is not None:
            assert deeper(20, document) in ("[" * levels + "]" * levels, "")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"\ud800", "\ufffd"),
        (r"\uDFFFx", "\ufffdx"),
        (r"\uDFFF\uD800", "\ufffd\ufffd"),
        (r"\ud83d\ud83d\uDE00\ude00", "\ufffd😀\ufffd"),
        (r"\ud83dn\ude00", "\ufffdn\ufffd"),
        (r"\\ud83d\ude00", r"\ud83d" + "\ufffd"),
        (r"\\\\ud800\"", r"\\ud800" + '"'),
    ],
)
def test_half_a_surrogate_pair_is_no_character(written: str, text: str) -> None:
    members = page(f'{{"data": {{"{written}": ["{written}"]}}}}').root.first("$.data")
    assert members.attrs() == {text: json.dumps([text], ensure_ascii=False)}
    assert [each.text() for each in members.select("$.*[0]")] == [text]


@pytest.mark.parametrize("written", [r"\ud80", r"\UD800", r"\ud8", "\\ud\n00", "\\"])
def test_text_that_is_no_escape_is_unchanged(written: str) -> None:
    assert page(f'["{written}"]').json is None
