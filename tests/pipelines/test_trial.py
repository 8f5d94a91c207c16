"""A trial has the rows of a run, in its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.engine.run import Run
from pipelines.errors import RunError
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.transforms.transform import Transforms
from tests.support.pipelines import TITLE, crawl, make_context
from tests.support.site import Site
from tests.support.trials import open_trial, try_rows
from tests.support.turns import record_turns

PAGES: dict[str, str | int] = {
    "/": "<a class=start href=/2></a><a class=start href=/a></a><a class=next href=/2>2</a>"
    "<ul><li><a href=/a>A</a><li><b>none</b><li><a href=/gone>G</a></ul>",
    "/2": "<a class=next href=/3>3</a><a class=next href=/>1</a><ul><li><a href=/b>B</a><a href=/a>A</a></ul>",
    "/3": "<a class=next href=http://elsewhere.test/>x</a><a class=next href=/2>2</a>",
    "/a": "<a class=next href=/3>3</a><a class=next href=/b>B</a><h1>Apple</h1><i>x</i><i>y</i>",
    "/b": "<h1>Beet</h1>",
}
DATED = ((2, "b"), (1, "a"))
ROBOTS = "User-agent: *\nDisallow: /private"
STAGES = {
    "crawl": """
  - {stage: explore, args: [a.next, {depth: 9, sameHost: true}]}
  - {stage: flatSelect, args: [li, [{selector: a, as: link}]]}
  - {stage: join, args: [a]}
  - {stage: extract, args: [{selector: h1, as: name}, {selector: i, as: marks, all: true}]}
""",
    "two seeds": """
  - {stage: join, args: [a.start]}
  - {stage: explore, args: [a.next, {depth: 9, sameHost: true}]}
  - {stage: extract, args: [{selector: h1, as: name}]}
""",
    "inner": """
  - {stage: explore, args: [a.next, {depth: 1, sameHost: true}]}
  - {stage: join, args: ["li a", Inner]}
  - {stage: explore, args: [a, 1]}
  - {stage: extract, args: [{selector: h1, as: name}]}
""",
}


def run_locally(plan: Plan) -> list[dict[str, Any]]:
    with Run(plan, make_context(plan)) as run:
        return LocalRunner(run).collect().to_pylist()


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
def test_a_trial_has_the_rows_of_a_run(site: Site, stages: str) -> None:
    base = site.serve(PAGES)
    text = f"fetch: {{url: '{base}/'}}\npipeline:{stages}spindle: {{keepColumns: [_requestedUrl, _status, _depth]}}\n"
    plan = Pipeline.from_yaml(text).plan()
    names, ran = (*plan.columns,), run_locally(plan)
    with open_trial(plan) as trial:
        tried = [{name: row.value(name) for name in names} for row in trial.iter_rows()]
    assert tried == ran
    assert len(ran) > 2


def test_a_trial_reads_a_sitemap(site: Site) -> None:
    base = site.serve(PAGES)
    entries = "".join(f"<url><loc>{base}/{name}</loc><lastmod>2026-01-0{day}</lastmod></url>" for day, name in DATED)
    site.serve({**PAGES, "/sitemap.xml": f"<urlset>{entries}</urlset>"})
    named = TITLE.replace("as: title", "as: name")
    plan = Pipeline.from_yaml(f"pipeline: [{{stage: sitemap, args: ['{base}/sitemap.xml']}}, {named}]").plan()
    tried = try_rows(plan)
    assert run_locally(plan) == tried
    assert tried == [{"lastmod": "2026-01-02", "name": "Beet"}, {"lastmod": "2026-01-01", "name": "Apple"}]


def test_a_trial_obeys_robots_txt_and_keeps_the_delay(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    links = "".join(f"<a href=/{name}>" for name in ("a", "private", "b"))
    base = site.serve({"/": links, "/a": "A", "/b": "B", "/private": "P", "/robots.txt": ROBOTS})
    text = crawl(f"{base}/", "{stage: join, args: [a]}", options="delay: 0.1, keepColumns: [_url]")
    plan = Pipeline.from_yaml(text).plan()
    turns = record_turns(monkeypatch)
    with open_trial(plan, 10) as trial:
        assert len(list(trial.iter_rows())) == 3
        (failure,) = trial.failures
    assert (failure.url, failure.message) == (f"{base}/private", f"{base}/robots.txt forbids this address to Spindle")
    assert site.requests["/private"] == 0
    assert (turns.delays, turns.started) == ({base: 0.1}, {base: 3})


def test_a_failure_of_a_stage_ends_a_trial(site: Site) -> None:
    base = site.serve(PAGES)
    text = crawl(f"{base}/", "{stage: 'python_row_transform:fails', args: {onError: fail}}")
    transforms = Transforms({"fails": "def fails(row) -> {'a': str}:\n    raise ValueError('no')\n"})
    plan = Pipeline.from_yaml(text).plan(transforms=transforms)
    with open_trial(plan, 5) as trial, pytest.raises(RunError, match="no"):
        list(trial.iter_rows())


def test_a_trial_takes_the_first_rows_of_a_large_file(site: Site, tmp_path: Path) -> None:
    base = site.serve(PAGES)
    first = f'page,name\n{base}/a,"Apple, red"\n{base}/b,Beet\n'
    (tmp_path / "large.csv").write_text(first + f"{base}/x,y\n" * 2_500_000)
    stages = f"[{{stage: load_csv, args: ['{tmp_path}/large.csv']}}, {{stage: wget, args: [$page]}}, {TITLE}]"
    plan = Pipeline.from_yaml(f"pipeline: {stages}").plan()
    rows = try_rows(plan, 2)
    assert [(row["name"], row["title"]) for row in rows] == [("Apple, red", "Apple"), ("Beet", "Beet")]
    assert "/x" not in site.requests


def test_a_trial_reads_no_more_sitemaps_than_it_needs(site: Site) -> None:
    base = site.serve(PAGES)
    nested = [f"<sitemap><loc>{base}/{number}.xml</loc></sitemap>" for number in range(30)]
    entries = [f"<url><loc>{base}/{name}?{number}</loc></url>" for number in range(5) for name in "ab"]
    site.serve(
        {
            **{f"/{number}.xml": f"<urlset>{''.join(entries)}</urlset>" for number in range(30)},
            **{f"/{name}?{number}": f"<h1>{name}</h1>" for number in range(5) for name in "ab"},
            "/sitemap.xml": f"<sitemapindex>{''.join(nested)}</sitemapindex>",
        }
    )
    plan = Pipeline.from_yaml(f"pipeline: [{{stage: sitemap, args: ['{base}/sitemap.xml']}}, {TITLE}]").plan()
    assert [row["title"] for row in try_rows(plan, 3)] == ["a", "b", "a"]
    assert sum(path.endswith(".xml") for path in site.requests) <= 9


def test_a_column_that_the_file_lacks_is_an_error_of_a_trial(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("page\nx\n")
    stages = f"[{{stage: load_csv, args: ['{tmp_path}/in.csv']}}, {{stage: wget, args: [$pages]}}, {TITLE}]"
    plan = Pipeline.from_yaml(f"pipeline: {stages}").plan()
    with open_trial(plan, 2) as trial, pytest.raises(RunError, match="did you mean page"):
        list(trial.iter_rows())
