"""Plan → steps of the Dagster run: pure, one step per visible stage, in order."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class StageStep:
    """One mapped step. `key` is the plan's, which the driver's messages carry too; `place` is for people."""

    key: str
    title: str
    place: str


def translate(plan: Plan) -> tuple[StageStep, ...]:
    return tuple(
        StageStep(step.key, step.title, f"pass {number}" + (f", line {step.line}" if step.line else ""))
        for number, steps in enumerate(plan.iter_passes(), start=1)
        for step in steps
    )
