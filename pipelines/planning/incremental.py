"""Checks of an incremental pipeline: whether its pages have distinct addresses, and which changes it does not see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipelines.errors import Problem
from pipelines.incremental.options import Incremental
from pipelines.language.columns import Columns
from pipelines.language.names import truncate
from pipelines.language.nodes import Node, locate_problem
from pipelines.planning.plan import Plan, Step, find_last_fetches
from pipelines.planning.stage import LinkStage, Stage


def find_incremental_faults(plan: Plan, options: Incremental, node: Node, dropped_at: Step | None) -> Iterator[Problem]:
    """Find the faults of an incremental pipeline, and warn of changes that it does not see."""
    path = "spindle.incremental"
    last = find_last_fetches(plan.steps[:-1])
    if not last:
        message = "incremental leaves out known pages, and the pipeline fetches none"
        yield locate_problem(node, "conflicting-arguments", message, path)
    if dropped_at and "_requestedUrl" not in tuple(plan.columns):
        where = f" (line {dropped_at.line})" if dropped_at.line else ""
        message = (
            f"incremental needs the page of each row, which {truncate(dropped_at.title)}{where} drops: "
            "select _requestedUrl there, or *"
        )
        yield locate_problem(node, "null-column", message, path)
    before = Columns()
    for step in plan.steps:
        stage = step.stage
        if step.key in last and isinstance(stage, LinkStage):
            request = plan.build_request(stage, before)
            if request is not None and request.is_per_row:
                message = (
                    f"{step.location}: incremental tells pages apart by their addresses, and these requests differ in "
                    "method, body or headers"
                )
                yield replace(locate_problem(node, "conflicting-arguments", message, path), line=step.line)
        before = step.columns
    if options.recheck_seconds is None:
        hint = "recheck: P7D asks for them again" if options.keys else "{keys: [COLUMN]} asks for them again"
        message = f"incremental leaves out pages that an earlier execution has published: it sees no changes; {hint}"
        fixed = [step for step in plan.steps if step.key in last and _has_one_address(step.stage)]
        if fixed:
            message += f"; {fixed[0].location} has one address, so later executions have no rows"
        yield locate_problem(node, "changes-not-seen", message, path)


def _has_one_address(stage: Stage | None) -> bool:
    return isinstance(stage, LinkStage) and len(stage.fixed_urls) == 1 and stage.fetching.pagination is None
