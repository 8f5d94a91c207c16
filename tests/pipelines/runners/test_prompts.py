"""Stages that ask questions about pages, without a language model: what the pages say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pipelines.inference.page_reader import NO_MODEL
from tests.support.pipelines import crawl
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.templates import make_pages

PAGES = {f"/{name}": page.html for name in ("table", "classes") for page in make_pages(name, 1)}
TRUTH = {name: dict(page.values) for name in ("table", "classes") for page in make_pages(name, 1)}


def ask(runners: Runners, site: Site, *stages: str) -> Mapping[str, Any]:
    plan = runners.plan(crawl(site.serve(PAGES) + "/table", *stages, options="keepColumns: [_error]"))
    assert {each.code for each in plan.warnings} == {"no-model"}
    (row,) = runners.assert_equal(plan).preview
    return row


VALUES = TRUTH["table"]


def test_values_that_the_page_states(runners: Runners, site: Site) -> None:
    stages = (
        "{stage: iextract, args: ['title as title and price as cost']}",
        "{stage: iextract, args: ['Extract: title, price', p_]}",
        "{stage: iextract, args: {prompt: [title as name, price as amount]}}",
        "{stage: iextract, args: [{selector: article, method: code}, 'price as price']}",
        "{stage: iextract, args: {prompt: 'Extract: title, price', as: found}}",
    )
    row = dict(ask(runners, site, *stages))
    assert row.pop("found") == {"title": VALUES["title"], "price": VALUES["price"]}, "one struct column"
    assert row.pop("_error") is None
    titles, prices = ("title", "p_title", "name"), ("cost", "p_price", "amount", "price")
    assert row == {**dict.fromkeys(titles, VALUES["title"]), **dict.fromkeys(prices, VALUES["price"])}


def test_a_prompt_without_names_gives_a_map(runners: Runners, site: Site) -> None:
    named = "{stage: extract, args: [{method: llm, args: ['Extract: price'], as: found}]}"
    row = ask(runners, site, "{stage: iextract, args: [What is on this page?, all_]}", named)
    assert dict(row["all"])["price"] == VALUES["price"]
    assert dict(row["found"]) == {"price": VALUES["price"]}


def test_evidence_says_where_a_value_stands_and_who_gave_it(runners: Runners, site: Site) -> None:
    row = ask(runners, site, "{stage: iextract, args: {prompt: 'Extract: price', prefix: p_, evidence: true}}")
    found = dict(row["_evidence"])["p_price"]
    assert (found["text"], found["method"]) == (VALUES["price"], "table")
    assert found["path"].endswith("tr[3]/td[1]")


def test_a_column_of_html_gives_json(runners: Runners, site: Site) -> None:
    html = "{stage: extract, args: [{selector: table, method: code, as: html}]}"
    row = ask(runners, site, html, "{stage: intelligentExtract, args: [$html, 'Extract: price', found]}")
    assert row["found"] == f'{{"price": "{VALUES["price"]}"}}'


@pytest.mark.parametrize(
    "stage",
    [
        "{stage: iextract, args: ['Extract: title, price']}",
        "{stage: extract, args: [{method: llm, args: ['Extract: title, price'], as: found}]}",
    ],
)
def test_where_no_means_serves_the_row_has_an_error(stage: str, runners: Runners, site: Site) -> None:
    text = crawl(site.serve(PAGES) + "/classes", stage, options="keepColumns: [_error]")
    outcome = runners.assert_equal(runners.plan(text))
    row = dict(outcome.preview[0])
    assert row.pop("_error") == NO_MODEL
    assert set(row.values()) == {None}
    assert [(url.rpartition("/")[2], message) for url, message in outcome.failed_pages] == [("classes", NO_MODEL)]
