"""Plans as steps of the Dagster run; the expected steps are files beside the pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.translator import translate
from pipelines.pipeline import Pipeline

PLANS = Path(__file__).parent / "plans"


@pytest.mark.parametrize("name", sorted(path.stem for path in PLANS.glob("*.yaml")))
def test_steps(name: str) -> None:
    plan = Pipeline.from_yaml((PLANS / f"{name}.yaml").read_text()).plan({"SHOP": "http://shop.example/"})
    steps = [f"stage[{step.key}]  {step.title}  ({step.place})" for step in translate(plan)]
    assert "\n".join(steps) + "\n" == (PLANS / f"{name}.txt").read_text()


def test_keys_are_what_dagster_takes_and_unique() -> None:
    twice = "pipeline:\n  - {stage: load_csv, args: [{path: a.csv}]}\n" + "  - {stage: limit, args: [2]}\n" * 2
    keys = [step.key for step in translate(Pipeline.from_yaml(twice).plan({}))]
    assert len(set(keys)) == len(keys) == 4
    assert all(key.replace("_", "").isalnum() for key in keys)
