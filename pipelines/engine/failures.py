"""Failures in passes, with the stage that failed and its line."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pipelines.planning.plan import Kind, Plan, Step

STEP_KEY = re.compile(r"(s\d+_\w+): ")


def locate_failure(
    plan: Plan, sentence: str, begun: Collection[str], failing: Sequence[Step] = ()
) -> tuple[str, int | None]:
    """Return the sentence of a failed pass with the location of its stage, and the line.

    A sentence of StageFailed begins with the key of the step. Otherwise it is one of the `failing` steps or, without
    any, one from the last that has `begun` in a worker.
    """
    key = STEP_KEY.match(sentence)
    if key and (step := next((step for step in plan.steps if step.key == key[1]), None)):
        return _add_location(sentence[key.end() :], [step])
    return _add_location(sentence, failing or _list_possible_steps(plan, begun))


def _add_location(sentence: str, steps: Sequence[Step]) -> tuple[str, int | None]:
    """Return the sentence with the location of one step, or of the first and the last of several, and its line."""
    if not steps:
        return sentence, None
    first, last = steps[0], steps[-1]
    if first is last:
        return f"{first.location}: {sentence.removeprefix(f'{first.name}: ')}", first.line
    return f"lines {first.line} to {last.line} ({first.name} to {last.name}): {sentence}", first.line


def _list_possible_steps(plan: Plan, begun: Collection[str]) -> list[Step]:
    """Return the steps from the last one that has begun in a worker."""
    last = max((number for number, step in enumerate(plan.steps) if step.key in begun), default=0)
    return [step for step in plan.steps[last:] if step.kind is not Kind.OUTPUT]
