"""Selectors, text and absolute addresses, compared with what jsoup itself gave; see jsoup/README.md."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import pytest

from pipelines.extract import Document, Element, HtmlElement
from pipelines.extract.text import get_text
from pipelines.fetch import canonical_url
from pipelines.fetch.urls import absolute_url
from tests.support.pages import document

FOLDER = Path(__file__).parent / "jsoup"
PAGES = sorted(path.name for path in (FOLDER / "pages").glob("*.html"))


@cache
def rows(table: str, page: str) -> list[list[str]]:
    lines = (FOLDER / table).read_text().split("\n")
    return [line.split("\t")[1:] for line in lines if line.startswith(page + "\t")]


@cache
def parsed(page: str) -> Document:
    return document((FOLDER / "pages" / page).read_bytes(), url="http://example.test/docs/page.html")


def found(page: str, line: str) -> list[Element]:
    root = parsed(page).root
    segments, separator, selector = line.rpartition(" >>> ")
    scopes = root.select(segments) if separator else [root]
    return [element for scope in scopes for element in scope.select(selector)]


def digest(elements: list[Element]) -> str:
    hashed = hashlib.sha256()
    for element in elements:
        assert isinstance(element, HtmlElement)
        hashed.update(f"{(element.node.tag or '').lower()}\t{get_text(element.node)}\n".encode())
    return hashed.hexdigest()[:16]


@pytest.mark.parametrize("page", PAGES)
def test_selects_the_same_elements_and_text_as_jsoup(page: str) -> None:
    different: list[str] = []
    for line, count, expected, first in rows("golden.tsv", page):
        elements = found(page, line)
        if (str(len(elements)), digest(elements)) != (count, expected):
            text = re.sub(r"\s", " ", _read(elements[0]))[:60] if elements else ""
            different.append(f"{line}: jsoup {count} {first!r}, here {len(elements)} {text!r}")
    assert different == []


@pytest.mark.parametrize("page", PAGES)
def test_addresses_are_absolute_as_in_jsoup(page: str) -> None:
    elements = parsed(page).root.select("[href], [src]")[:60]
    links = rows("links.tsv", page)
    assert len(elements) == len(links)
    for element, (value, expected) in zip(elements, links, strict=True):
        name = "href" if "href" in element.attrs() else "src"
        assert element.attr(name) == value
        assert element.absolute(name) == absolute_url(expected)


@pytest.mark.parametrize("page", ["hard.html", "postgresql-tutorial-join.html"])
def test_the_first_match_is_the_first_of_all(page: str) -> None:
    for line, count, _, first in rows("golden.tsv", page):
        if " >>> " not in line:
            element = parsed(page).root.first(line)
            assert (element is not None) == (count != "0"), line
            assert element is None or re.sub(r"\s", " ", _read(element))[:60] == first, line


def test_the_first_match_inside_an_element_is_the_first_of_all_inside_it() -> None:
    root = parsed("hard.html").root
    scopes = [root, *root.select("body, ul, li, table, div, p, span")]
    for selector in (FOLDER / "selectors.txt").read_text().splitlines():
        if " >>> " in selector:
            continue
        for scope in scopes:
            first, found = scope.first(selector), scope.select(selector)
            assert [_node(each) for each in found[:1]] == ([_node(first)] if first else []), selector


def _read(element: Element) -> str:
    """The text by which selectors find an element."""
    assert isinstance(element, HtmlElement)
    return get_text(element.node)


def _node(element: Element) -> int:
    """What tells elements apart that look alike."""
    assert isinstance(element, HtmlElement)
    return element.node.mem_id


def test_the_table_is_as_large_as_it_claims_to_be() -> None:
    selectors = (FOLDER / "selectors.txt").read_text().splitlines()
    assert len(PAGES) >= 10
    assert len(selectors) >= 150
    assert all(len(rows("golden.tsv", page)) == len(selectors) for page in PAGES)
    assert canonical_url("http://example.test/docs/page.html") is not None
