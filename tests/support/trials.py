"""Trials of pipelines over sites of this machine."""

from __future__ import annotations

from typing import Any

from pipelines.engine.options import make_fetch_options
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.trial import Trial
from tests.support.fetching import LOOPBACK


def open_trial(plan: Plan, max_pages: int = 100, **options: Any) -> Trial:
    return Trial(plan, make_fetch_options(plan.options, LOOPBACK), max_pages, **options)


def try_rows(pipeline: Plan | str, max_pages: int = 100, **options: Any) -> list[dict[str, Any]]:
    """Return the rows that a trial of the plan or of the text of a pipeline gives."""
    plan = Pipeline.from_yaml(pipeline).plan() if isinstance(pipeline, str) else pipeline
    with open_trial(plan, max_pages, **options) as trial:
        return [dict(row.values) for row in trial.iter_rows()]
