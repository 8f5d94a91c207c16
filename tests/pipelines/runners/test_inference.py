"""Stages that ask questions about pages, with a language model: selectors are inferred once for all tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.models.options import ModelOptions
from tests.support.models import KEY, Json, ModelServer, answer_truth
from tests.support.pipelines import crawl
from tests.support.runners import Outcome, Runners
from tests.support.site import Site
from tests.support.templates import GeneratedPage, get_truth, make_listing, make_pages

PROMPT = "title as title and price as price and rating as rating"
TEXT = """
fetch: {{url: '${{B}}/'}}
pipeline:
- {{stage: wgetJoin, args: [ul.list a]}}
- {stage}
spindle: {{keepColumns: [_error], model: {{provider: OPENAI, maxCalls: {calls}}}}}
"""


def serve(site: Site, server: ModelServer, pages: list[GeneratedPage]) -> str:
    server.rule = answer_truth(get_truth(*pages))
    return site.serve({"/": make_listing(*pages), **{page.path: page.html for page in pages}})


def make_plan(runners: Runners, base: str, stage: str, calls: int = 100) -> Any:
    return runners.plan(TEXT.format(stage=stage, calls=calls), B=base)


def get_rows(outcome: Outcome) -> list[dict[str, Any]]:
    return [dict(row) for row in outcome.preview]


ASK = f"{{stage: iextract, args: ['{PROMPT}']}}"


@pytest.mark.parametrize("template", ["classes", "ids", "labels"])
def test_a_template_costs_five_calls_for_all_tasks(
    template: str, runners: Runners, site: Site, server: ModelServer
) -> None:
    pages = make_pages(template, 20, 10)
    plan = make_plan(runners, serve(site, server, pages), ASK)
    assert plan.warnings == ()
    for run in (runners.run_locally, runners.run_on_spark):
        server.requests.clear()
        outcome = run(plan)
        assert 0 < len(server.requests) <= 5
        assert get_rows(outcome) == [{**page.values, "_error": None} for page in pages]


def test_a_second_run_makes_no_calls(runners: Runners, site: Site, server: ModelServer, tmp_path: Path) -> None:
    runners.selectors = str(tmp_path / "selectors")
    pages = make_pages("classes", 16, 10)
    plan = make_plan(runners, serve(site, server, pages), ASK)
    outcome = runners.run_locally(plan)
    assert 0 < len(server.requests) <= 5
    server.requests.clear()
    again = runners.run_on_spark(plan)
    assert server.requests == []
    runners.assert_same(outcome, again)
    (stored,) = (tmp_path / "selectors").rglob("*.json")
    assert KEY not in stored.read_text()


def test_templates_of_one_crawl_are_inferred_apart(runners: Runners, site: Site, server: ModelServer) -> None:
    pages = [page for name in ("classes", "ids", "json-ld") for page in make_pages(name, 7)]
    outcome = runners.run_locally(make_plan(runners, serve(site, server, pages), ASK))
    rows = {row["title"]: row for row in get_rows(outcome)}
    assert len(outcome.ordered) == 21
    for page in pages[:20]:
        assert rows[page.values["title"]]["rating"] == page.values["rating"]


def test_a_single_page_costs_one_call_and_nothing_is_stored(
    runners: Runners, site: Site, server: ModelServer, tmp_path: Path
) -> None:
    runners.selectors = str(tmp_path / "selectors")
    pages = make_pages("classes", 1)
    outcome = runners.run_locally(make_plan(runners, serve(site, server, pages), ASK))
    assert get_rows(outcome) == [{**pages[0].values, "_error": None}]
    assert [*(tmp_path / "selectors").rglob("*.json")] == []
    assert len(server.requests) == 1


def test_a_spent_budget_is_the_error_of_the_rows(runners: Runners, site: Site, server: ModelServer) -> None:
    pages = make_pages("classes", 8)
    plan = make_plan(runners, serve(site, server, pages), f"{ASK}\n- {{stage: extract, args: [{{selector: h1}}]}}", 1)
    outcome = runners.assert_equal(plan)
    rows = get_rows(outcome)
    assert {row["text"] for row in rows} == {page.values["title"] for page in pages}
    assert all("the budget of the execution, 1 calls; a larger maxCalls allows it" in row["_error"] for row in rows)
    assert {row["title"] for row in rows} == {None}


def test_a_pipeline_that_names_no_model_has_that_of_its_run(runners: Runners, site: Site, server: ModelServer) -> None:
    runners.model = ModelOptions(provider="OPENAI", name="small", maxCalls=1)
    base, text = serve(site, server, make_pages("classes", 8)), TEXT.format(stage=ASK, calls=1)
    plan = runners.plan(text.replace(", model: {provider: OPENAI, maxCalls: 1}", ""), B=base)
    rows = get_rows(runners.run_locally(plan))
    assert {each["body"]["model"] for each in server.requests} == {"small"}
    assert all("the budget of the execution, 1 calls" in row["_error"] for row in rows)


def test_segments_have_selectors_of_their_own(runners: Runners, site: Site, server: ModelServer) -> None:
    pages = make_pages("classes", 8)
    cards = "".join(
        f"<li class=card><b class=name>{page.values['title']}</b><i class=cost>{page.values['price']}</i></li>"
        for page in pages
    )
    server.rule = answer_truth(get_truth(*pages))
    base = site.serve({"/": f"<ul>{cards}</ul>"})
    stages = "{stage: flatSelect, args: [li.card]}", "{stage: iextract, args: ['Extract: title, price', p_]}"
    outcome = runners.assert_equal(runners.plan(crawl(f"{base}/", *stages, options="model: {maxCalls: 50}")))
    assert get_rows(outcome) == [{"p_title": page.values["title"], "p_price": page.values["price"]} for page in pages]


def test_a_prompt_without_names_asks_for_them_once(runners: Runners, site: Site, server: ModelServer) -> None:
    pages = make_pages("classes", 8)
    base, truth = serve(site, server, pages), answer_truth(get_truth(*pages))

    def name(task: str, data: Json, schema: Json) -> object:
        return {"fields": ["Title", "price"]} if "fields" in schema["properties"] else truth(task, data, schema)

    server.rule = name
    plan = make_plan(runners, base, "{stage: extract, args: [{method: llm, args: [Get title and price], as: found}]}")
    rows = get_rows(runners.run_locally(plan))
    assert [dict(row["found"]) for row in rows] == [
        {"title": page.values["title"], "price": page.values["price"]} for page in pages
    ]
    assert len(server.requests) <= 5


def test_prompted_columns_without_any_value_are_told_and_fail_where_they_are_required(
    runners: Runners, site: Site, server: ModelServer
) -> None:
    base = serve(site, server, make_pages("classes", 8, 10))
    server.rule = answer_truth({})
    outcome = runners.run_locally(make_plan(runners, base, ASK))
    assert (outcome.failure, outcome.stored and outcome.stored.total()) == (None, 8)
    assert [each.partition(" (column ")[2] for each in outcome.empty] == [
        f"{name}) found nothing on 8 of 8 pages" for name in ("title", "price", "rating")
    ]
    required = ASK.replace("']}", "', {required: [price]}]}")
    failed = runners.run_locally(make_plan(runners, base, required))
    assert "(column price) found nothing on 8 of 8 pages" in str(failed.failure)


def test_prompted_columns_of_html_in_a_column_are_counted_by_row(
    runners: Runners, site: Site, server: ModelServer
) -> None:
    base = serve(site, server, make_pages("classes", 8, 10))
    server.rule = answer_truth({})
    html = "{stage: extract, args: [{selector: body, method: code, as: html}]}"
    stages = f"{html}\n- {{stage: iextract, args: [$html, 'Extract: sku']}}"
    outcome = runners.run_locally(make_plan(runners, base, stages))
    assert [each.partition(" (column ")[2] for each in outcome.empty] == ["sku) found nothing on 8 of 8 pages"]
