"""Generated crawls give the same on both runners; of the many, the default suite runs the first."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pipelines.local.engine_choice import find_spark_need
from tests.support.generated import TRANSFORMS, fill_site, generate_text
from tests.support.runners import Runners
from tests.support.site import Site

PLANS = 36
FIRST = 20


@pytest.mark.gate
@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [*range(FIRST), *(pytest.param(seed, marks=pytest.mark.variant) for seed in range(FIRST, PLANS))]
)
def test_a_generated_plan_gives_the_same(seed: int, runners: Runners, site: Site, tmp_path: Path) -> None:
    random = Random(seed)
    base = fill_site(site, random)
    pages = ("/list/0", "/item/1", "/list/0", "/item/99", "/list/3")
    (tmp_path / "seeds.csv").write_text("page,n\n" + "".join(f"{base}{page},{n}\n" for n, page in enumerate(pages)))
    text = generate_text(base, str(tmp_path), random)
    limit = random.choice([None, None, None, 3])
    plan = runners.plan(text, TRANSFORMS)
    if need := find_spark_need(plan):
        pytest.skip(str(need))
    runners.assert_equal(plan, limit)
