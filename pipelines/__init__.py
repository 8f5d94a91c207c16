"""Spindle's engine: a pipeline's YAML → a checked plan → rows on Spark."""

from __future__ import annotations

from pipelines.errors import MAX_PROBLEMS, PipelineError, Problem, RunError
from pipelines.listing import StageListing, listing
from pipelines.pipeline import Pipeline, check_yaml, stage
from pipelines.planning.plan import Kind, Plan, Step
from pipelines.planning.script import script
from pipelines.planning.stage import Sink
from pipelines.transforms.transform import Transforms

__all__ = [
    "MAX_PROBLEMS",
    "Kind",
    "Pipeline",
    "PipelineError",
    "Plan",
    "Problem",
    "RunError",
    "Sink",
    "StageListing",
    "Step",
    "Transforms",
    "check_yaml",
    "listing",
    "script",
    "stage",
]
