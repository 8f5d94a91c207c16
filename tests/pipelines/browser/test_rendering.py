"""`render: auto`: the browser for the pages whose selectors find something there alone, learned by template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipelines.engine.rendering import describe_rendering
from pipelines.engine.run import Run
from pipelines.errors import PipelineError
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from tests.support.pipelines import crawl, make_context
from tests.support.site import Site, serve_site
from tests.support.trials import open_trial

PAGES_OF_TEMPLATE = 6
SCRIPT = "<script>document.querySelector('section').innerHTML += '<b class=price>' + 2 + '</b>'</script>"
KINDS = {
    "lamp": "<main><section><h1>lamp {n}</h1></section></main>" + SCRIPT,
    "note": "<article><p>text</p><h1>note {n}</h1><table><tr><td>x</td></tr></table></article>",
    "cup": "<div><div><ul><li>c</li></ul><h1>cup {n}</h1><b class=price>{n}</b></div></div>",
}
TEXT = """
fetch: {url: "URL/"}
pipeline:
  - {stage: join, args: [a, {render: RENDER}]}
  - {stage: extract, args: [{selector: h1, as: name}, {selector: .price, as: price}]}
"""
SENTENCE = "browser: 1 of 3 templates, because .price is made by script"


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        pages = {
            f"/{name}{n}": text.replace("{n}", str(n)) for n in range(PAGES_OF_TEMPLATE) for name, text in KINDS.items()
        }
        site.serve({"/": "".join(f"<a href={path}>{path}</a>" for path in pages), **pages})
        yield site


def run(text: str, selectors: str | None = None) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    plan = Pipeline.from_yaml(text).plan()
    context = make_context(plan, selectors=selectors)
    with Run(plan, context) as run:
        rows = LocalRunner(run).collect().to_pylist()
        learned = {name: each for counts in run.get_counts().values() for name, each in counts.rendering.items()}
    return rows, learned


def test_only_pages_of_the_template_that_needs_it_are_rendered(site: Site, tmp_path: Path) -> None:
    text = TEXT.replace("URL", site.url)
    expected, _ = run(text.replace("RENDER", "always"))
    assert {row["price"] for row in expected if row["name"].startswith("lamp")} == {"2"}
    site.requests.clear()
    rows, learned = run(text.replace("RENDER", "auto"), str(tmp_path / "selectors"))
    assert rows == expected
    assert describe_rendering(learned) == SENTENCE
    requests = {kind: sum(site.requests[f"/{kind}{n}"] for n in range(PAGES_OF_TEMPLATE)) for kind in KINDS}
    assert requests == {"lamp": 2 * PAGES_OF_TEMPLATE, "note": PAGES_OF_TEMPLATE + 2, "cup": PAGES_OF_TEMPLATE}
    site.requests.clear()
    again, learned = run(text.replace("RENDER", "auto"), str(tmp_path / "selectors"))
    assert (again, describe_rendering(learned)) == (expected, SENTENCE)
    assert sum(site.requests[f"/note{n}"] for n in range(PAGES_OF_TEMPLATE)) == PAGES_OF_TEMPLATE  # known from before


def test_a_pipeline_has_a_default_for_its_stages() -> None:
    def plan(first: str, second: str, default: str) -> list[tuple[bool, bool]]:
        stages = (f"{{stage: join, args: [a{each}]}}" for each in (first, second))
        plan = Pipeline.from_yaml(crawl("http://a/", *stages, options=f"render: {default}")).plan()
        fetching = [step.stage.fetching for step in plan.steps if step.stage][:3]
        return [(each.browsing is not None, each.scripts is not None) for each in fetching]

    assert plan("", ", {render: auto}", "auto") == [(False, True)] * 3
    assert plan(", {render: never}", ", {headers: {X-A: b}}", "always") == [(True, False)] + [(False, False)] * 2


def test_a_trial_renders_the_same_pages(site: Site) -> None:
    plan = Pipeline.from_yaml(TEXT.replace("URL", site.url).replace("RENDER", "auto")).plan()
    with open_trial(plan, 4) as trial:
        rows = [row.values for row in trial.iter_rows()]
        learned = {name: each for counts in trial.counts.values() for name, each in counts.rendering.items()}
    assert rows == [
        {"name": "lamp 0", "price": "2"},
        {"name": "note 0", "price": None},
        {"name": "cup 0", "price": "0"},
    ]
    assert describe_rendering(learned) == SENTENCE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spindle: {render: auto, headers: {X-A: b}}", "the browser sends no 'headers'"),
        ("spindle: {render: perhaps}", "perhaps"),
        ("fetch: auto", r"'spindle: \{render: auto\}'"),
    ],
)
def test_a_default_that_cannot_be_is_a_problem(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline.from_yaml(f"{text}\npipeline: [{{stage: wget, args: ['http://a/']}}]").plan()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{render: auto, headers: {X-A: b}}", "the browser sends no 'headers' of a stage"),
        ("{render: sometimes}", "sometimes"),
    ],
)
def test_what_the_browser_cannot_do_is_a_problem(arguments: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline.from_yaml(f"fetch: {{url: http://a/}}\npipeline: [{{stage: join, args: [a, {arguments}]}}]").plan()
