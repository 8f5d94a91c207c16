"""Stages that ask questions about pages, without a language model: what the pages say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pipelines.inference.page_reader import NO_MODEL
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.templates import make_pages

PAGES = {f"/{name}": page.html for name in ("table", "classes") for page in make_pages(name, 1)}
KEPT = "spindle: {keepColumns: [_error]}"
TRUTH = {name: dict(page.values) for name in ("table", "classes") for page in make_pages(name, 1)}


def ask(runners: Runners, site: Site, stage: str, path: str = "/table") -> Mapping[str, Any]:
    base = site.serve(PAGES)
    plan = runners.plan(f"fetch: {{url: '${{B}}{path}'}}\npipeline:\n- {stage}\n{KEPT}", B=base)
    assert [each.code for each in plan.warnings] == ["no-model"]
    (row,) = runners.assert_equal(plan).preview
    return row


VALUES = TRUTH["table"]
STAGES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "a prompt": ("{stage: iextract, args: ['title as title and price as cost']}", {"title": "title", "cost": "price"}),
    "a prefix": ("{stage: iextract, args: ['Extract: title, price', p_]}", {"p_title": "title", "p_price": "price"}),
    "a map": ("{stage: iextract, args: {prompt: [title, price as cost]}}", {"title": "title", "cost": "price"}),
    "html": (
        "{stage: iextract, args: [{selector: article, method: code}, 'price as price']}",
        {"price": "price"},
    ),
}


@pytest.mark.parametrize(("stage", "columns"), STAGES.values(), ids=STAGES)
def test_values_that_the_page_states(stage: str, columns: Mapping[str, str], runners: Runners, site: Site) -> None:
    row = ask(runners, site, stage)
    assert row == {**{name: VALUES[of] for name, of in columns.items()}, "_error": None}


def test_one_struct_column(runners: Runners, site: Site) -> None:
    row = ask(runners, site, "{stage: iextract, args: {prompt: 'Extract: title, price', as: found}}")
    assert row["found"] == {"title": VALUES["title"], "price": VALUES["price"]}


def test_a_prompt_without_names_gives_a_map(runners: Runners, site: Site) -> None:
    row = ask(runners, site, "{stage: iextract, args: [What is on this page?, all_]}")
    assert dict(row["all"])["price"] == VALUES["price"]
    row = ask(runners, site, "{stage: extract, args: [{method: llm, args: ['Extract: price'], as: found}]}")
    assert dict(row["found"]) == {"price": VALUES["price"]}


def test_evidence_says_where_a_value_stands_and_who_gave_it(runners: Runners, site: Site) -> None:
    row = ask(runners, site, "{stage: iextract, args: {prompt: 'Extract: price', prefix: p_, evidence: true}}")
    found = dict(row["_evidence"])["p_price"]
    assert (found["text"], found["method"]) == (VALUES["price"], "table")
    assert found["path"].endswith("tr[3]/td[1]")


def test_a_column_of_html_gives_json(runners: Runners, site: Site) -> None:
    stages = "{stage: extract, args: [{selector: table, method: code, as: html}]}\n"
    stages += "- {stage: intelligentExtract, args: [$html, 'Extract: price', found]}"
    row = ask(runners, site, stages)
    assert row["found"] == f'{{"price": "{VALUES["price"]}"}}'


@pytest.mark.parametrize(
    "stage",
    [
        "{stage: iextract, args: ['Extract: title, price']}",
        "{stage: extract, args: [{method: llm, args: ['Extract: title, price'], as: found}]}",
    ],
)
def test_where_no_means_serves_the_row_has_an_error(stage: str, runners: Runners, site: Site) -> None:
    plan = runners.plan(f"fetch: {{url: '${{B}}/classes'}}\npipeline:\n- {stage}\n{KEPT}", B=site.serve(PAGES))
    outcome = runners.assert_equal(plan)
    row = dict(outcome.preview[0])
    assert row.pop("_error") == NO_MODEL
    assert set(row.values()) == {None}
    assert [(url.rpartition("/")[2], message) for url, message in outcome.failed_pages] == [("classes", NO_MODEL)]
