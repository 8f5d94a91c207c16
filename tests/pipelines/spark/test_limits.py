"""A limit keeps the first rows, and pages that could only give later rows are not fetched."""

from __future__ import annotations

import pytest

from pipelines.contract.context import RunContext
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import find_link_limits
from tests.support.pipelines import Run
from tests.support.site import Site

PAGES = 5


@pytest.fixture
def base(site: Site) -> str:
    """A list of five pages, each with two products, of which one has two parts."""
    pages: dict[str, str | int] = {}
    for number in range(PAGES):
        lamp, cup = f"/lamp{number}", f"/cup{number}"
        links = f"<a class=product href={lamp}>L</a><a class=product href={cup}>C</a>"
        pages[f"/{number}"] = f"{links}<a class=next href=/{number + 1}>next</a>"
        pages |= {lamp: f"<h1>{lamp}</h1><p>1<p>2", cup: f"<h1>{cup}</h1>"}
    return site.serve(pages)


def test_a_limit_fetches_no_pages_of_later_rows(run: Run, site: Site, base: str) -> None:
    text = f"""
fetch: {{url: "{base}/0"}}
pipeline:
- {{stage: explore, args: [a.next, 9]}}
- {{stage: join, args: [a.product]}}
- {{stage: flatSelect, args: [p, {{selector: ":root h1", as: title}}]}}
"""
    rows = run(text)
    for limited, context in ((f"{text}- {{stage: limit, args: [3]}}", None), (text, RunContext(limit=3))):
        site.requests.clear()
        assert run(limited, context) == rows[:3]
        assert sorted(site.requests) == ["/0", "/1", "/2", "/cup0", "/lamp0", "/lamp1"]


@pytest.mark.parametrize(
    ("stages", "limits"),
    [
        ("{stage: join, args: [a]}, {stage: extract, args: [{selector: a}]}, {stage: limit, args: [2]}", [2]),
        ("{stage: join, args: [a]}, {stage: join, args: [a, Inner]}, {stage: limit, args: [2]}", [2]),
        ("{stage: explore, args: [a]}, {stage: join, args: [a]}, {stage: limit, args: [2]}", [2, 2]),
        ("{stage: join, args: [a]}, {stage: explore, args: [a]}, {stage: limit, args: [2]}", [2]),
        ("{stage: join, args: [a]}, {stage: extract, args: [{selector: a}]}, {stage: dedup}, "
         "{stage: limit, args: [2]}", []),
        ("{stage: join, args: [a]}, {stage: limit, args: [5]}, {stage: limit, args: [2]}", [2]),
        ("{stage: join, args: [a]}, {stage: limit, args: [0]}", [0]),
    ],
)  # fmt: skip
def test_only_stages_that_keep_rows_pass_a_limit_on(stages: str, limits: list[int]) -> None:
    text = f"pipeline: [{{stage: wget, args: ['http://a/']}}, {stages}]\nspindle: {{keepColumns: [_url]}}"
    found = find_link_limits(Pipeline.from_yaml(text).plan().steps[1:-1], None)
    assert list(found.values()) == limits
