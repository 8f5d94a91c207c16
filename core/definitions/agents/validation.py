"""Checks of agents' pipelines: errors with line and column, and warnings about functions that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from core.definitions.agents.plan_outline import PlanOutline, outline_pipeline, outline_plan
from core.errors import BadInput, Detail
from core.infra.validation import is_storable
from pipelines.errors import MAX_PROBLEMS, PipelineError
from pipelines.language.nodes import to_node, write_yaml
from pipelines.local.choice import find_engine_conflict
from pipelines.pipeline import Pipeline
from pipelines.planning.notebook import read_notebook
from pipelines.planning.script_reader import read_script
from pipelines.plugin import PluginScope
from pipelines.spark.requirements import find_unfetched_libraries
from pipelines.transforms.transform import Transforms

# a top-level key `pipeline` of block or flow YAML, but not an annotated assignment in Python
_PIPELINE_KEY = re.compile(r"""^["']?pipeline["']?\s*:\s*(\[|#|$)|\A\s*\{.*["']?pipeline["']?\s*:""", re.MULTILINE)


def looks_like_pipeline(code: str) -> bool:
    """Whether the text is meant as a pipeline rather than as Python."""
    return _PIPELINE_KEY.search(re.sub(r"\r\n?", "\n", code)) is not None


@dataclass(frozen=True, slots=True)
class AgentText:
    """The pipeline that an agent's code is, with the row transforms that came with it."""

    pipeline: str
    transforms: Mapping[str, str] = field(default_factory=dict[str, str])


def read_code(code: str) -> AgentText | None:
    """Return the pipeline that a code is, as YAML or as a script or notebook like those of `pysparkCode`.

    It is None for other Python. Raise BadInput with the line, or the path, of every problem of a script.
    """
    notebook = read_notebook(code)
    if notebook is None and looks_like_pipeline(code):
        return AgentText(code)
    try:
        script = read_script(code if notebook is None else notebook)
        if script is None:
            return None
        # here and not as YAML: the script has none of its lines
        Pipeline(to_node({**script.pipeline})).check(Transforms(script.transforms))
    except PipelineError as error:
        raise describe_problems(error) from error
    return AgentText(write_yaml({**script.pipeline}), script.transforms)


def check_pipeline(text: str) -> PlanOutline:
    """Return the outline of a pipeline's plan; parameters may still lack a value.

    Raise BadInput with the line and column of every problem.
    """
    try:
        return outline_plan(Pipeline.from_yaml(text))
    except PipelineError as error:
        raise describe_problems(error) from error


def find_valid_pipelines(texts: Iterable[str | None]) -> Mapping[str, PlanOutline]:
    """Return the texts that are valid pipelines, with the outlines of their plans.

    Called before a transaction: parsing takes long, and other writers wait for the transaction's lock.
    """
    outlines = {text: outline_pipeline(text) for text in set(texts) if text is not None and is_storable(text)}
    return {text: outline for text, outline in outlines.items() if outline.fault is None}


def describe_problems(error: PipelineError) -> BadInput:
    """Return the error that answers a pipeline with problems."""
    details = [
        Detail(f"line {each.line}, column {each.column}" if each.line else each.path, each.message, each.code)
        for each in (*error.problems, *error.warnings)
    ]
    number = len(error.problems)
    if number == 1:
        return BadInput(f"The pipeline has a problem: {error.problems[0]}", details)
    count = f"more than {MAX_PROBLEMS}" if number > MAX_PROBLEMS else number
    return BadInput(f"The pipeline has {count} problems, the first of them: {error.problems[0]}", details)


def find_warnings(pipeline: str | None, transforms: Mapping[str, str], plugins: PluginScope) -> Sequence[str]:
    """Return the warnings about a pipeline with these row transforms, and about missing Java libraries, with lines."""
    if pipeline is None:
        return ()
    try:
        plan = Pipeline.from_yaml(pipeline).plan_open(Transforms(transforms), plugins)
        conflict = find_engine_conflict(plan)
        problems = (*plan.warnings, *find_unfetched_libraries(plan), *([conflict] if conflict else ()))
    except PipelineError as error:
        problems = error.problems
    return [str(problem) for problem in problems]


def calls_functions(pipeline: str) -> bool:
    """Whether the text may call row transforms: a quick look that needs no parser."""
    return "pythonrowtransform" in pipeline.replace("_", "").casefold()
