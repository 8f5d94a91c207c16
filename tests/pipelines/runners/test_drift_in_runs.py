"""Sites that change during or between runs: found within the run, repaired by the cheapest means, never silent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pipelines.inference.page_reader import ABSENT
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.store import SelectorStore
from tests.support.catalogues import CATALOGUES, CHANGES
from tests.support.models import ModelServer, answer_truth
from tests.support.runners import Outcome, Runners
from tests.support.site import Site
from tests.support.templates import HOST, GeneratedPage, get_truth, make_listing, make_pages

TEXT = """
fetch: {url: '${B}/'}
pipeline:
- {stage: wgetJoin, args: [ul.list a]}
- {stage: iextract, args: ['$PROMPT', {required: $REQUIRED}]}
spindle: {keepColumns: [_error], concurrency: 1, cache: 0, model: {provider: OPENAI, maxCalls: 30}}
"""
PROMPT = "title as title and price as price and rating as rating"
Change = Callable[[str], str]


class ChangingSite:
    """A site whose pages are crawled as they are first, then with a change, with one folder of proven selectors."""

    def __init__(self, runners: Runners, site: Site, server: ModelServer, folder: Path) -> None:
        self._runners, self._site, self._server = runners, site, server
        self.folder = runners.selectors = str(folder)

    def crawl(
        self,
        pages: Sequence[GeneratedPage],
        change: Change = str,
        unchanged: int = 0,
        required: str = "false",
        prompt: str = PROMPT,
    ) -> Outcome:
        """Crawl the pages, of which all but the first ones are changed."""
        self._server.rule = answer_truth(get_truth(*pages))
        self._server.requests.clear()
        bodies = {page.path: page.html if at < unchanged else change(page.html) for at, page in enumerate(pages)}
        base = self._site.serve({"/": make_listing(*pages), **bodies})
        return self._runners.run_locally(
            self._runners.plan(TEXT.replace("$REQUIRED", required).replace("$PROMPT", prompt), B=base)
        )

    def list_records(self) -> Sequence[ProvenSelectors]:
        return SelectorStore(self.folder).list_all()

    def pin(self) -> None:
        (record,) = self.list_records()
        SelectorStore(self.folder).put(record.model_copy(update={"pinned": True}))


@pytest.fixture
def shop(runners: Runners, site: Site, server: ModelServer, tmp_path: Path) -> ChangingSite:
    return ChangingSite(runners, site, server, tmp_path / "selectors")


def rename(html: str) -> str:
    """Rename what the price depends on."""
    return html.replace('class="price"', 'class="cost"').replace('class="box"', 'class="frame"')


def move(html: str) -> str:
    """Rename it, and put something else where it stood."""
    return rename(html).replace('<span class="cost">', '<span>-10%</span><span class="cost">')


def remove(html: str) -> str:
    """Remove the price, its label and its element."""
    return html.partition('<div class="box">')[0] + "<div><span></span></div>" + html.partition("</span></div>")[2]


def get_values(pages: Sequence[GeneratedPage]) -> list[dict[str, str | None]]:
    return [{**page.values, "_error": None} for page in pages]


@pytest.mark.long
@pytest.mark.parametrize(("change", "step"), [(rename, "candidate"), (move, "model")])
def test_a_change_half_way_is_read_right_on_all_pages(
    change: Change, step: str, shop: ChangingSite, server: ModelServer
) -> None:
    shop.crawl(make_pages("classes", 24))
    pages = make_pages("classes", 20, 30)
    outcome = shop.crawl(pages, change, unchanged=8)
    assert [dict(row) for row in outcome.preview] == get_values(pages)
    assert (outcome.failure, outcome.drift) == (None, [("price", step)])
    assert 0 < len(server.requests) <= 5 if step == "model" else server.requests == []
    again = shop.crawl(pages, change, unchanged=8)
    assert [dict(row) for row in again.preview] == get_values(pages)
    assert (again.drift, server.requests) == ([], [])


def test_known_values_lead_to_the_renamed_class_without_a_call(shop: ChangingSite, server: ModelServer) -> None:
    pages = make_pages("classes", 8)
    shop.crawl(pages)
    outcome = shop.crawl(pages, move)
    assert [dict(row) for row in outcome.preview] == get_values(pages)
    assert (outcome.drift, server.requests) == ([("price", "relocated")], [])


@pytest.mark.parametrize("pinned", [False, True])
def test_a_value_that_is_gone_everywhere_is_told_and_fails_where_it_is_required(
    pinned: bool, shop: ChangingSite, server: ModelServer, runners: Runners
) -> None:
    shop.crawl(make_pages("classes", 8))
    before = shop.list_records()
    if pinned:
        shop.pin()
    server.faults = []
    outcome = shop.crawl(make_pages("classes", 8, 30), remove)
    assert (outcome.failure, outcome.drift) == (None, [("price", "nulls")])
    assert {row["_error"] for row in outcome.preview} == {
        "the value of 'price' is doubtful: it is not as it was before on this site"
    }
    assert bool(server.requests) is not pinned
    assert [each.fields for each in shop.list_records()] == [each.fields for each in before]
    required = shop.crawl(make_pages("classes", 8, 30), remove, required="[price]")
    assert required.failure is not None
    assert (
        "prompt title as title and price as price and rating as rating (column price) found nothing"
        in (required.failure[0])
    )


def test_a_page_without_an_optional_value_is_no_drift(shop: ChangingSite, server: ModelServer) -> None:
    shop.crawl(make_pages("classes", 8))
    pages = make_pages("classes", 12, 30)
    outcome = shop.crawl(pages, lambda html: remove(html) if pages[4].values["title"] in html else html)
    expected = get_values(pages)
    expected[4]["price"] = None
    assert [dict(row) for row in outcome.preview] == expected
    assert (outcome.failure, outcome.drift, server.requests) == (None, [], [])


def test_pages_that_say_that_they_do_not_exist_are_no_drift(shop: ChangingSite, server: ModelServer) -> None:
    pages = make_pages("classes", 8)
    shop.crawl(pages)
    gone = {page.values["title"] for page in pages[:6]}

    def replace(html: str) -> str:
        title = next((each for each in gone if f">{each}<" in html), None)
        return remove(html).replace(title, "Page not found") if title else html

    outcome = shop.crawl(pages, replace)
    assert [row["_error"] for row in outcome.preview] == [ABSENT] * 6 + [None] * 2
    assert (outcome.failure, outcome.drift, server.requests) == (None, [], [])


def test_doubt_about_most_pages_fails_where_the_column_is_required(shop: ChangingSite, server: ModelServer) -> None:
    shop.crawl(make_pages("classes", 24))
    shop.pin()
    pages = make_pages("classes", 24, 30)
    outcome = shop.crawl(pages, remove, unchanged=8, required="true")
    assert outcome.failure is not None
    assert re.search(r"'price' is missing on \d+ of \d+ pages of this run, on 0 of 24 before", outcome.failure[0])


def crawl_catalogue(shop: ChangingSite, name: str, first: int, change: Change = str) -> Outcome:
    catalogue = CATALOGUES[name]
    drawn = catalogue.draw(name, 60, 1, first)
    pages = [GeneratedPage(f"http://{HOST}{page.path}", page.html, page.values) for page in drawn]
    columns = ", ".join(["title", *catalogue.columns])
    return shop.crawl(pages, change, prompt=f"Extract: {columns}")


def test_columns_of_few_values_and_sparse_ones_are_no_drift(shop: ChangingSite) -> None:
    for first in (0, 30, 90):
        outcome = crawl_catalogue(shop, "jobs", first)
        assert (outcome.failure, outcome.drift) == (None, [])
    (record,) = shop.list_records()
    company = next(field for field in record.fields if field.name == "company")
    assert company.baseline is not None
    assert len(company.baseline.values) < 16


@pytest.mark.parametrize("change", ["other values", "another unit", "moved", "name taken"])
def test_other_values_than_those_of_the_first_complete_run_are_told(change: str, shop: ChangingSite) -> None:
    kind, edit = CHANGES[change]
    field = CATALOGUES["jobs"].few if kind == "few" else CATALOGUES["jobs"].number
    crawl_catalogue(shop, "jobs", 0)
    outcome = crawl_catalogue(shop, "jobs", 10, lambda html: edit(html, field))
    assert outcome.failure is None
    assert [name for name, _ in outcome.drift] == [field]
