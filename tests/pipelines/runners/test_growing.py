"""A run that grows over to Spark shows what a run on one runner shows, and requests no page twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from pipelines.language.engines import Growth
from pipelines.local.engine_choice import find_spark_need
from tests.support.generated import TRANSFORMS, fill_site, generate_text
from tests.support.runners import Runners
from tests.support.site import Site

PIPELINE = """
fetch: {{url: '{base}/'}}
pipeline:
- {{stage: wgetExplore, args: [a.next, 4]}}
- {{stage: extract, args: [{{selector: h1, as: list}}]}}
- {{stage: wgetExplore, args: ['li.product a, a.rel', 3]}}
- {{stage: extract, args: [{{selector: h1, as: title}}]}}
- {{stage: dedup, args: [_requestedUrl]}}
- {{stage: echo, args: [5]}}
- {{stage: wget, args: [$_requestedUrl]}}
- {{stage: wgetJoin, args: [a.rel, Inner]}}
- {{stage: 'python_row_transform:inferred'}}
spindle: {{keepColumns: [_url, _error], maxFailureRatio: 1, retries: 0}}
"""


VARIANTS = (
    Growth(pages=1, slow_pages=1),
    Growth(pages=4, slow_pages=4),
    Growth(pages=8, slow_pages=8),
    Growth(rows=8),
    Growth(bytes=1500),
)


@pytest.mark.long
@pytest.mark.parametrize(
    "growth",
    [
        Growth(pages=2, slow_pages=2),
        Growth(rows=3),
        Growth(bytes=100),
        *(pytest.param(each, marks=pytest.mark.variant) for each in VARIANTS),
    ],
    ids=lambda growth: f"{growth.pages} pages, {growth.rows} rows, {growth.bytes} bytes",
)
def test_growing_over_shows_the_same(growth: Growth, runners: Runners, site: Site) -> None:
    base = fill_site(site, Random(3))
    site.redirects.clear()  # an address and one that leads to it may be requested at the same time
    plan = runners.plan(PIPELINE.format(base=base), TRANSFORMS)
    alone = runners.run_locally(plan)
    grown, error = runners.run_growing(plan, growth)
    assert error is not None
    runners.assert_same(alone, grown)
    assert max((grown.requests or {}).values()) == 1


@pytest.mark.parametrize(
    "seed", [*range(100, 103), *(pytest.param(n, marks=pytest.mark.variant) for n in range(103, 116))]
)
def test_generated_plans_that_grow_over_show_the_same(seed: int, runners: Runners, site: Site, tmp_path: Path) -> None:
    random = Random(seed)
    base = fill_site(site, random)
    site.redirects.clear()
    (tmp_path / "seeds.csv").write_text(f"page,n\n{base}/list/0,1\n{base}/item/1,2\n{base}/list/0,3\n")
    text = generate_text(base, str(tmp_path), random)
    plan = runners.plan(text, TRANSFORMS)
    if need := find_spark_need(plan):
        pytest.skip(str(need))
    limit = random.choice([1, 2, 3, 5])
    alone = runners.run_locally(plan)
    grown, _ = runners.run_growing(plan, Growth(pages=limit, slow_pages=limit, rows=2 * limit))
    runners.assert_same(alone, grown)


@pytest.mark.long
def test_rows_for_another_system_are_written_once_after_growing(runners: Runners, site: Site, tmp_path: Path) -> None:
    base = fill_site(site, Random(3))
    text = f"""
fetch: {{url: '{base}/'}}
pipeline:
- {{stage: extract, args: [{{selector: h1, as: title}}]}}
- {{stage: save_jdbc, args: ['jdbc:sqlite:{tmp_path}/shop.sqlite', pages]}}
- {{stage: wget, args: ['{base}/']}}
- {{stage: wgetExplore, args: [a, 2]}}
- {{stage: extract, args: [{{selector: h1, as: title}}]}}
spindle: {{maxFailureRatio: 1, retries: 0}}
"""
    _, error = runners.run_growing(runners.plan(text), Growth(pages=1, slow_pages=1))
    assert error is not None
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection:
        written = connection.execute("SELECT count(*) FROM pages").fetchone()
    assert written == (1,)
