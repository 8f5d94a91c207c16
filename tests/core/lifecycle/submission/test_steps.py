"""The steps that an execution freezes, as text: plans/*.yaml and beside each its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.lifecycle.submission.planning import list_steps
from pipelines.pipeline import Pipeline

PLANS = Path(__file__).parent / "plans"


@pytest.mark.parametrize("name", sorted(path.stem for path in PLANS.glob("*.yaml")))
def test_steps_of_a_plan(name: str) -> None:
    plan = Pipeline.from_yaml((PLANS / f"{name}.yaml").read_text()).plan({"SHOP": "http://shop.example/"})
    lines = [
        f"stage[{step.key}]  {step.title}  (pass {step.pass_number}{f', line {step.line}' if step.line else ''})\n"
        for step in list_steps(plan)
    ]
    assert "".join(lines) == (PLANS / f"{name}.txt").read_text()


def test_keys_are_unique_and_valid_in_dagster() -> None:
    twice = "pipeline:\n  - {stage: load_csv, args: [{path: a.csv}]}\n" + "  - {stage: limit, args: [2]}\n" * 2
    keys = [step.key for step in list_steps(Pipeline.from_yaml(twice).plan({}))]
    assert len(set(keys)) == len(keys) == 4
    assert all(key.replace("_", "").isalnum() for key in keys)
