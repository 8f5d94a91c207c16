"""Where the next page is: in the header Link, behind a parameter, and not behind a page that was there before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.extract.pagination import (
    MAX_PAGES,
    Following,
    PageChains,
    PageRows,
    Pagination,
    find_next_link,
    set_parameter,
)
from pipelines.extract.rows import Fetched, Row
from tests.support.pages import document

URL = "http://shop.test/a/list?page=1"


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("<http://shop.test/2>; rel=next", "http://shop.test/2"),
        ("</0>; rel=prev, <?page=2>; rel=next", "http://shop.test/a/list?page=2"),
        ('</9>; rel="last", </a,b;c>; title="x, y; rel=no"; REL="prefetch Next"', "http://shop.test/a,b;c"),
        ('</9>;rel="next"\r\nLink: </8>; rel=next', "http://shop.test/9"),
        ("</9>; rel=first\r\nLink: </8>; rel=next", "http://shop.test/8"),
        ("</9>; rel=nextpage", None),
        ("</9>; title=next", None),
        ("mailto:x; rel=next", None),
        ("", None),
    ],
)
def test_the_header_link_is_read_as_the_standard_says(header: str, address: str | None) -> None:
    page = replace(document("", URL).page, head=f"HTTP/1.1 200 OK\r\nLink: {header}\r\n\r\n".encode())
    assert find_next_link(page) == address


@pytest.mark.parametrize("name", ["page[after]", "page%5Bafter%5D"])
@pytest.mark.parametrize("query", ["page[after]=1&x=%20", "page%5Bafter%5D=1&x=%20", "x=%20&page%5bafter%5d"])
def test_parameters_are_compared_decoded(name: str, query: str) -> None:
    assert set_parameter(f"http://a/?{query}", name, "ä=") == "http://a/?x=%20&page[after]=%C3%A4%3D"


def test_a_site_that_answers_with_its_last_page_for_ever_is_left() -> None:
    chains = PageChains(Pagination.model_validate({"page": 1, "next": "li"}), False, None)
    due, errors = [(URL, [Row({}, (0,))])], list[str | None]()
    for number in (1, 2, 2, 2):
        if due:
            ((url, rows),) = due
            page = document(f"<input name=csrf value={len(errors)}><li><a href=/{number}>x</a>", url)
            fetched = chains.check(page.page, Fetched.from_page(page.page), rows)
            errors.append(fetched.error)
            chains.add(page.page, fetched, rows)
            due = chains.take()
    assert errors == [None, None, f"page 3 of {URL} answers the same as a page before, so it is taken as the last one"]


@pytest.mark.parametrize(
    ("total", "pages"),
    [
        ("10", 4),
        ("Showing 1-3 of 10 results", 4),
        ("1 \u2013 3 von ca. 10 Artikeln, Stand 2026", 4),
        ("3 из 10", 4),
        ("1-3 / 10", 4),
        ("Page 1 of 4 (10 results)", 4),
        ("10 produits de 2 marques", 4),
        ("1 à 3 sur 1 234 résultats", 412),
        ("10,000 results", 3_334),
        ("1,00,00,000 results", MAX_PAGES),
        ("1-3 of 1,234", 412),
        ("none", 1),
        ("9" * 5000, MAX_PAGES),
        ('{"total": 10}', 4),
        ('{"total": 10.0}', 4),
        ('{"total": "10"}', 4),
        ('{"total": null}', 1),
    ],
)
def test_the_total_is_found_in_its_sentence(total: str, pages: int) -> None:
    is_json = total.startswith("{")
    page = document(total if is_json else f"<p>{total}", URL, "application/json" if is_json else "text/html")
    pagination = Pagination.model_validate({"page": 1, "size": 3, "total": "$.total" if is_json else "p"})

    def has_next(number: int) -> bool:
        chains, rows = PageChains(pagination, False, None), [Row({}, (0, 0))]
        rows = PageRows(rows, URL, number - 1, Following(URL), set())
        chains.add(page.page, Fetched.from_page(page.page), rows)
        return bool(chains.take())

    assert [has_next(number) for number in (pages - 1, pages)] == [pages > 1, False]
