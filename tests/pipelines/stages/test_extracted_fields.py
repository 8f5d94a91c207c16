"""Extractors that read columns which their own list has made."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.pipeline import check_yaml
from tests.support.pipelines import TITLE, Run, crawl, find_problem
from tests.support.site import Site
from tests.support.trials import try_rows

PAGE = "<h1>Lamp 12</h1><b>1,50 €</b><i>A1</i><i>B2</i><a href=/x>x</a>"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "the issue's": (
        "{selector: b, as: raw}, {field: raw, method: price, as: price}",
        {"raw": "1,50 €", "price": 1.5},
    ),
    "a chain": (
        r"{selector: h1, as: a}, {field: a, pattern: '\d+', as: b}, {field: $b, cast: int, as: c}",
        {"a": "Lamp 12", "b": "12", "c": 12},
    ),
    "a default": (
        "{selector: u, default: 3 EUR, as: raw}, {field: raw, method: price, as: price}, {field: raw, as: copy}",
        {"raw": "3 EUR", "price": 3.0, "copy": "3 EUR"},
    ),
    "a default of its own": (
        "{selector: u, as: raw}, {field: raw, method: price, default: 0, as: price}",
        {"raw": None, "price": 0.0},
    ),
    "a list of a list": (
        r"{selector: i, all: true, as: ids}, {field: ids, all: true, pattern: '\d', cast: int, as: numbers}",
        {"ids": ["A1", "B2"], "numbers": [1, 2]},
    ),
    "the first of a list": (
        r"{selector: i, all: true, as: ids}, {field: ids, as: id}, {field: ids, pattern: '\d', as: number}",
        {"ids": ["A1", "B2"], "id": "A1", "number": "1"},
    ),
    "the first of no list": (
        "{selector: u, all: true, as: ids}, {field: ids, as: id}, {field: ids, method: price}",
        {"ids": [], "id": None, "price": None},
    ),
    "a list of one value": (
        "{selector: h1, as: a}, {field: a, all: true, as: b}",
        {"a": "Lamp 12", "b": ["Lamp 12"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("stage", ["{stage: extract, args: [%s]}", "{stage: flatSelect, args: [body, [%s]]}"])
@pytest.mark.parametrize("case", CASES)
def test_a_field_is_a_column_made_above_it(case: str, stage: str, run: Run, site: Site) -> None:
    extractors, row = CASES[case]
    text = crawl(site.serve({"/": PAGE}) + "/", stage % extractors)
    check_yaml(text)
    assert run(text) == try_rows(text, 10) == [row]


def test_a_column_made_above_hides_that_of_an_earlier_stage(run: Run, site: Site) -> None:
    first = "{stage: extract, args: [{selector: b, as: name}]}"
    then = "{stage: extract, args: [{field: name, as: old}, {selector: h1, as: name}, {field: name, as: new}]}"
    rows = run(crawl(site.serve({"/": PAGE}) + "/", first, then))
    assert rows == [{"name": "Lamp 12", "old": "1,50 €", "new": "Lamp 12"}]


def test_a_link_above_leads_on(run: Run, site: Site) -> None:
    base = site.serve({"/": PAGE, "/x": "<h1>X</h1>"})
    links = "{selector: a, method: attr:href, as: path}, {field: path, method: href, as: to}"
    rows = run(crawl(f"{base}/", f"{{stage: extract, args: [{links}]}}", "{stage: join, args: [$to]}", TITLE))
    assert rows == [{"path": "/x", "to": f"{base}/x", "title": "X"}]


@pytest.mark.parametrize("stage", ["{stage: extract, args: [%s]}", "{stage: flatSelect, args: [body, [%s]]}"])
def test_a_column_that_is_made_below_is_unknown(stage: str) -> None:
    extractors = "{field: raw, method: price, as: price}, {selector: b, as: raw}"
    problem = find_problem(crawl("http://shop.test/", stage % extractors))
    assert (problem.line, problem.code) == (3, "unknown-column")
