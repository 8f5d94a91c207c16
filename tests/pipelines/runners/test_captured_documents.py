"""JSON that a page's scripts request, and lists that scroll, on both runners, in a check and in a trial."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines.errors import PipelineError
from pipelines.pipeline import Pipeline
from tests.support.browser import visited
from tests.support.runners import Runners
from tests.support.scripted_site import serve_scripted_site
from tests.support.trials import open_trial, try_rows

EXAMPLE = Path(__file__).parents[3] / "examples/json-listing.yaml"


@pytest.mark.long
def test_the_rows_of_a_listing_are_those_of_its_json(runners: Runners) -> None:
    with serve_scripted_site() as site:
        plan = runners.plan(EXAMPLE.read_text(), SHOP=site.url)
        outcome = runners.assert_equal(plan)
        with open_trial(plan) as trial:
            assert [row.value("name") for row in trial.iter_rows()] == [f"item {number}" for number in range(1, 31)]
    assert sum((outcome.stored or {}).values()) == 30


@pytest.mark.long
def test_captured_documents_come_out_of_the_page_cache_together(runners: Runners, tmp_path: Path) -> None:
    with serve_scripted_site() as site:
        runners.pages = str(tmp_path)
        plan = runners.plan(f"spindle: {{cache: 3600}}\n{EXAMPLE.read_text()}", SHOP=site.url)
        first = runners.run_locally(plan)
        site.requests.clear()
        later = runners.run_locally(plan), runners.run_on_spark(plan)
        assert not site.requests
    assert sum((first.stored or {}).values()) == 30
    for each in later:
        assert (each.stored, each.is_ordered, each.ordered) == (first.stored, first.is_ordered, first.ordered)


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ("{stage: visitExplore, args: [a, {traces: [{action: capture, params: {url: x}}]}]}", "invalid-argument"),
        ("{stage: visit, args: [$u, {traces: [{action: capture, params: {url: '('}}]}]}", "invalid-pattern"),
        ("{stage: visit, args: [$u, {traces: [{action: scroll_to_bottom, params: {items: 3}}]}]}", "missing-argument"),
    ],
)
def test_what_cannot_be_captured_or_counted_is_said_by_a_check(stage: str, code: str) -> None:
    text = f"pipeline: [{{stage: wget, args: ['http://a.test/']}}, {stage}]"
    with pytest.raises(PipelineError) as caught:
        Pipeline.from_yaml(text).plan({})
    assert code in [each.code for each in caught.value.problems]


EVALUATED = """
fetch:
  url: "${BASE}/framed"
  traces:
    - {action: evaluate, params: {script: "({name: document.title, sizes: [1, 2]})", as: state}}
    - {action: evaluate, params: {script: "new Promise(done => setTimeout(() => done(7), 50))", as: number}}
    - {action: frame, params: {name: prices}}
    - {action: evaluate, params: {script: "document.querySelector('h2').textContent", as: inner}}
pipeline: [{stage: extract, args: [{selector: h2, as: heading}]}]
"""


@pytest.mark.long
def test_values_of_scripts_are_columns_of_their_type(runners: Runners) -> None:
    with serve_scripted_site() as site:
        site.pages["/inner"] = "<h2>Inner</h2>"
        plan = runners.plan(EVALUATED, BASE=site.url)
        outcome = runners.assert_equal(plan)
        [row] = try_rows(plan)
    state = {"name": "", "sizes": [1, 2]}
    assert row == {"state": state, "number": 7, "inner": "Inner", "heading": "Inner"}
    assert dict(outcome.columns)["number"] == "bigint"
    assert json.loads(outcome.preview[0]["state"]) == state


@pytest.mark.long
def test_values_of_scripts_and_pictures_come_out_of_the_page_cache(runners: Runners, tmp_path: Path) -> None:
    picture = "    - {action: screenshot, params: {as: picture}}\npipeline:"
    with serve_scripted_site() as site:
        site.pages["/inner"] = "<h2>Inner</h2>"
        runners.pages = str(tmp_path)
        text = f"spindle: {{cache: 3600}}{EVALUATED}".replace("pipeline:", picture)
        plan = runners.plan(text, BASE=site.url)
        first = runners.run_locally(plan)
        site.requests.clear()
        later = runners.run_locally(plan), runners.run_on_spark(plan)
        assert not site.requests
    assert first.preview[0]["number"] == 7
    assert [each.preview for each in later] == [first.preview, first.preview]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("missing.name", "action 1, evaluate x: .*missing is not defined"),
        ("new Promise(() => 0)", "the script of evaluate failed: it ran for more than 0.5 s"),
        ("'x'.repeat(20_000_000)", "action 1, evaluate x: .*too large"),
    ],
)
def test_a_script_that_fails_is_the_failure_of_its_page(script: str, error: str) -> None:
    with serve_scripted_site() as site:
        [page] = visited(
            f"{site.url}/login", {"action": "evaluate", "params": {"script": script, "as": "x", "timeout": 0.5}}
        )
    assert re.match(error, page.error or "")
