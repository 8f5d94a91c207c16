"""Checks of agents' pipelines: errors with line and column, and warnings about functions that are missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.definitions.agents.plan_outline import PlanOutline, outline_plan
from core.errors import BadInput, Detail
from pipelines.errors import MAX_PROBLEMS, PipelineError, Problem
from pipelines.language.plugin_scope import PluginScope
from pipelines.local.engine_choice import find_engine_conflict
from pipelines.pipeline import Pipeline
from pipelines.requirements import find_unfetched_libraries
from pipelines.transforms.transform import Transforms

# a top-level key `pipeline` of block or flow YAML, but not an annotated assignment in Python
_PIPELINE_KEY = re.compile(r"""^["']?pipeline["']?\s*:\s*(\[|#|$)|\A\s*\{.*["']?pipeline["']?\s*:""", re.MULTILINE)


def looks_like_pipeline(code: str) -> bool:
    """Whether the text is meant as a pipeline rather than as Python."""
    return _PIPELINE_KEY.search(re.sub(r"\r\n?", "\n", code)) is not None


def check_pipeline(text: str, plugins: PluginScope) -> PlanOutline:
    """Return the outline of a pipeline's plan; parameters may still lack a value.

    Raise BadInput with the line and column of every problem.
    """
    try:
        return outline_plan(Pipeline.from_yaml(text, plugins), plugins)
    except PipelineError as error:
        raise describe_problems(error) from error


@dataclass(frozen=True, slots=True)
class PipelineVerdict:
    """The problems of a pipeline's text, its warnings, and its plan as text, which is None where it has problems."""

    problems: Sequence[Problem]
    warnings: Sequence[Problem]
    plan: str | None


def judge_pipeline(text: str, transforms: Mapping[str, str], plugins: PluginScope) -> PipelineVerdict:
    """Check a pipeline with these row transforms; its parameters may still lack a value."""
    try:
        plan = Pipeline.from_yaml(text, plugins).plan_open(Transforms(transforms), plugins)
    except PipelineError as error:
        return PipelineVerdict(error.problems[:MAX_PROBLEMS], error.warnings, None)
    conflict = find_engine_conflict(plan)
    if conflict:
        return PipelineVerdict((conflict,), plan.warnings, None)
    return PipelineVerdict((), (*plan.warnings, *find_unfetched_libraries(plan)), str(plan))


def describe_problems(error: PipelineError) -> BadInput:
    """Return the error that answers a pipeline with problems."""
    details = [Detail(_describe_place(each), each.message, each.code) for each in (*error.problems, *error.warnings)]
    number = len(error.problems)
    if number == 1:
        return BadInput(f"The pipeline has a problem: {error.problems[0]}", details)
    count = f"more than {MAX_PROBLEMS}" if number > MAX_PROBLEMS else number
    return BadInput(f"The pipeline has {count} problems, the first of them: {error.problems[0]}", details)


def _describe_place(problem: Problem) -> str:
    if problem.line is None:
        return problem.path
    return f"line {problem.line}" if problem.column is None else f"line {problem.line}, column {problem.column}"


def find_warnings(pipeline: str | None, transforms: Mapping[str, str], plugins: PluginScope) -> Sequence[str]:
    """Return the warnings about a pipeline with these row transforms, and about missing Java libraries, with lines."""
    if pipeline is None:
        return ()
    try:
        plan = Pipeline.from_yaml(pipeline, plugins).plan_open(Transforms(transforms), plugins)
        conflict = find_engine_conflict(plan)
        problems = (*plan.warnings, *find_unfetched_libraries(plan), *([conflict] if conflict else ()))
    except PipelineError as error:
        problems = error.problems
    return [str(problem) for problem in problems]


def calls_functions(pipeline: str) -> bool:
    """Whether the text may call row transforms: a quick look that needs no parser."""
    return "pythonrowtransform" in pipeline.replace("_", "").casefold()
