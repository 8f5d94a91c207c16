"""Links that redirect to one page give one row of it, on both runners and in a trial."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.engine import segment
from pipelines.planning.plan import Plan
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import open_trial

LINKS = "".join(f"<a href=/{each}>{each}</a>" for each in ("to-c", "to-e", "to-e-too", "c", "home", "gone", "gone-too"))
PAGES = {
    "/home": f"<h1>home</h1>{LINKS}<b href=/of-home>x</b>",
    "/c": "<h1>c</h1><b href=/of-c>x</b>",
    "/e": "<h1>e</h1><a href=/to-home>home</a><a href=/to-f>f</a><b href=/of-e>x</b>",
    "/f": "<h1>f</h1><a href=/f>f</a>",
    **{f"/of-{each}": f"<h1>of {each}</h1>" for each in ("home", "c", "e")},
}
REDIRECTS = {
    "/start": "/home", "/to-c": "/c", "/to-e": "/e", "/to-e-too": "/e", "/to-home": "/home", "/to-f": "/f",
    "/gone": "/404", "/gone-too": "/404",
}  # fmt: skip
EXPLORE = """
fetch: {{url: "${{B}}/start"}}
pipeline:
- {{stage: wgetExplore, args: [a, {{depth: 3}}]}}
{more}
- {{stage: extract, args: [{{selector: h1, as: title}}]}}
spindle: {{keepColumns: [_requestedUrl, _depth], maxFailureRatio: 1}}
"""
ROWS = [("home", "/start"), ("e", "/to-e"), ("c", "/c"), (None, "/gone"), (None, "/gone-too"), ("f", "/to-f")]


@pytest.fixture
def both(spark: SparkSession, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Runners:
    site.serve({**PAGES, **dict.fromkeys(REDIRECTS, "")})
    site.redirects |= REDIRECTS
    return Runners(spark, tmp_path, caplog, site)


def list_tried(plan: Plan) -> list[tuple[object, str]]:
    with open_trial(plan) as trial:
        return [(row.values["title"], row.fetched.requested_url or "") for row in trial.iter_rows()]


def test_a_page_that_several_links_redirect_to_is_one_row(
    both: Runners, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = both.plan(EXPLORE.format(more=""), B=site.url)
    expected = [(title, site.url + path) for title, path in ROWS]
    found = {"trial": list_tried(plan)}
    for name, frontier in (("local", 1000), ("one task", 1000), ("integrations", 0)):
        monkeypatch.setattr(segment, "FRONTIER", frontier)
        outcome = both.run_locally(plan) if name == "local" else both.run_on_spark(plan)
        found[name] = [(row.get("title"), row["_requestedUrl"]) for row in map(literal_eval, outcome.ordered)]
    assert found == dict.fromkeys(found, expected)


def test_links_of_such_a_page_are_followed_once(both: Runners, site: Site) -> None:
    plan = both.plan(EXPLORE.format(more="- {stage: wgetJoin, args: [b, Inner]}"), B=site.url)
    expected = ["of c", "of e", "of home"]
    assert sorted(str(title) for title, _ in list_tried(plan)) == expected
    for run in (both.run_locally, both.run_on_spark):
        assert sorted(row["title"] for row in run(plan).preview) == expected


def test_tracking_parameters_and_session_ids_make_no_other_page(both: Runners, site: Site) -> None:
    links = "<a href='/b?utm_source=1'>x</a><a href='/b;jsessionid=A?gclid=2'>x</a><a href='/b?page=2&fbclid=3'>x</a>"
    site.serve({"/start": f"<h1>a</h1>{links}", "/b": "<h1>b</h1>", "/b?page=2": "<h1>c</h1>"})
    outcome = both.assert_equal(both.plan(EXPLORE.format(more=""), B=site.url))
    assert [row["title"] for row in outcome.preview] == ["a", "b", "c"]
