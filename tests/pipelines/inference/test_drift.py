"""Drift: each change of a template is found within the run, and repaired by the cheapest step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pipelines.inference.drift import Drift, RunStatistics, find_drift
from pipelines.inference.field_counts import Share
from pipelines.inference.proving import infer
from pipelines.inference.questions import Sample
from pipelines.inference.reading import read_values
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.repairs import choose_repair
from pipelines.models.client import ModelClient
from tests.support.models import answer_truth, serve_model
from tests.support.pages import document
from tests.support.templates import HOST, GeneratedPage, ask_for_all, get_truth, make_pages

Change = Callable[[str], str]


def prove(template: str) -> ProvenSelectors:
    pages = make_pages(template, 6)
    with serve_model(answer_truth(get_truth(*pages))) as server:
        client = ModelClient(server.make_model())
        record = infer(ask_for_all(), HOST, "t", (), [page.make_sample() for page in pages], client).record
    assert record is not None
    return record


def crawl(record: ProvenSelectors, pages: Sequence[GeneratedPage], change: Change) -> RunStatistics:
    """Read pages, of which the second half is changed."""
    statistics = RunStatistics()
    for at, page in enumerate(pages):
        html = page.html if at < len(pages) // 2 else change(page.html)
        element = document(html, page.url).root
        statistics.observe(record, element, read_values(record, element))
    return statistics


def make_samples(pages: Sequence[GeneratedPage], change: Change) -> list[Sample]:
    return [Sample(page.url, document(change(page.html), page.url).root) for page in pages]


def rename(html: str) -> str:
    return html.replace('class="price"', 'class="cost"').replace('class="box"', 'class="frame"')


CHANGES: dict[str, tuple[str, Change, str, str]] = {
    "gone": ("microdata", lambda html: html.replace('itemprop="price"', ""), "price", "fill"),
    "another type": ("ids", lambda html: html.replace("<span>£", "<span>Ask us for £"), "price", "type"),
    "the same everywhere": (
        "ids",
        lambda html: html.partition('id="title">')[0] + 'id="title">Our shop</h3>' + html.partition("</h3>")[2],
        "title",
        "distinct",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_half_way_is_found_within_the_run(name: str) -> None:
    template, change, field, measure = CHANGES[name]
    record = prove(template)
    keep_first = tuple(each.model_copy(update={"candidates": each.candidates[:1]}) for each in record.fields)
    record = record.model_copy(update={"fields": keep_first})
    found = find_drift(record, crawl(record, make_pages(template, 60, 100), change))
    assert [(each.field, each.measure) for each in found] == [(field, measure)]


@pytest.mark.parametrize("template", ["classes", "microdata", "table", "ids", "optional"])
def test_pages_as_at_proving_time_have_no_drift(template: str) -> None:
    record = prove(template)
    assert find_drift(record, crawl(record, make_pages(template, 60, 100), lambda html: html)) == []


def test_candidates_that_disagree_are_drift() -> None:
    record = prove("ids")

    def change(html: str) -> str:
        return html.replace('<h3 id="title">', '<span>£5.00</span><h3 id="title">')

    statistics = crawl(record, make_pages("ids", 60, 100), change)
    assert [(each.field, each.measure) for each in find_drift(record, statistics)] == [("price", "disagreement")]


def test_statistics_of_tasks_add_up_as_json() -> None:
    record = prove("microdata")
    pages = make_pages("microdata", 40, 100)
    one = crawl(record, pages[:20], lambda html: html)
    other = crawl(record, pages[20:], lambda html: html)
    one.merge(RunStatistics.from_json(other.to_json()))
    assert one.total["price"].pages == 40
    assert one.total["price"].filled == 40


def test_another_candidate_is_the_first_step() -> None:
    record = prove("ids")
    drift = Drift("price", "fill", Share(0, 6), Share(8, 8))

    def change(html: str) -> str:
        return html.replace('id="price"', 'id="amount"')

    samples = make_samples(make_pages("ids", 6, 50), change)
    repair = choose_repair(record, drift, samples)
    assert repair.step == "candidate"
    values = [read_values(repair.record, each.element)["price"] for each in samples]
    assert [each.value if each else None for each in values] == [
        page.values["price"] for page in make_pages("ids", 6, 50)
    ]


def test_known_values_are_located_again_on_their_pages() -> None:
    record = prove("classes")
    record = record.model_copy(
        update={"fields": tuple(each.model_copy(update={"candidates": each.candidates[:1]}) for each in record.fields)}
    )
    samples = make_samples(make_pages("classes", 6), rename)
    repair = choose_repair(record, Drift("price", "fill", Share(0, 6), Share(8, 8)), samples)
    assert repair.step == "relocated"
    fresh = make_samples(make_pages("classes", 3, 70), rename)
    values = [read_values(repair.record, each.element)["price"] for each in fresh]
    assert [each.value if each else None for each in values] == [
        page.values["price"] for page in make_pages("classes", 3, 70)
    ]


def test_the_last_steps_are_the_model_and_nulls() -> None:
    record = prove("classes")
    drift = Drift("price", "fill", Share(0, 6), Share(8, 8))
    samples = [Sample(f"http://{HOST}/{n}", document("<p>nothing here</p>").root) for n in range(6)]
    assert choose_repair(record, drift, samples).step == "model"
    repair = choose_repair(record, drift, samples, has_model=False)
    assert repair.step == "nulls"
    assert repair.record.unproven == ("price",)


def test_a_pinned_record_is_not_changed_by_a_repair() -> None:
    record = prove("ids").model_copy(update={"pinned": True})
    repair = choose_repair(
        record, Drift("price", "fill", Share(0, 6), Share(8, 8)), make_samples(make_pages("ids", 6), rename)
    )
    assert repair.step == "nulls"
