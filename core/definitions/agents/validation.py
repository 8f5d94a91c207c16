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
from pipelines.planning.script_reader import read_script, read_transforms
from pipelines.planning.script_run import run_script
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
    """The pipeline that an agent's code is, with the row transforms that came with it.

    Other Python is kept beside the pipeline that it gave, or beside the warning why it gave none.
    """

    pipeline: str | None
    transforms: Mapping[str, str] = field(default_factory=dict[str, str])
    is_python: bool = False
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedTexts:
    """What was found of agents' texts before a transaction: the outlines of valid pipelines, and what codes are.

    `locks` are those of the packages that the pipelines name (see `lock_packages_of`).
    """

    pipelines: Mapping[str, PlanOutline] = field(default_factory=dict[str, PlanOutline])
    codes: Mapping[str, AgentText] = field(default_factory=dict[str, AgentText])
    locks: Mapping[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])


def read_code(code: str) -> AgentText:
    """Return the pipeline that a code is: as YAML, or as a script or notebook like those of `pysparkCode`.

    Other Python is run for it. Raise BadInput with the line, or the path, of every problem of a script.
    """
    notebook = read_notebook(code)
    if notebook is None and looks_like_pipeline(code):
        return AgentText(code)
    text = code if notebook is None else notebook
    try:
        script = read_script(text)
    except PipelineError as error:  # it computes something
        return _run_code(text, error)
    if script is None:
        return _run_code(text)
    try:  # here and not as YAML: the script has none of its lines
        Pipeline(to_node({**script.pipeline})).check(Transforms(script.transforms))
    except PipelineError as error:
        raise describe_problems(error) from error
    return AgentText(write_yaml({**script.pipeline}), script.transforms)


def _run_code(text: str, fault: PipelineError | None = None) -> AgentText:
    """Return the pipeline of a Python code; where it gives none, a warning, or the `fault` of the script that it is."""
    try:
        return AgentText(run_script(text), read_transforms(text), is_python=True)
    except PipelineError as error:
        if fault is not None:
            raise describe_problems(fault) from error
        return AgentText(None, is_python=True, warning=str(error))


def check_pipeline(text: str) -> PlanOutline:
    """Return the outline of a pipeline's plan; parameters may still lack a value.

    Raise BadInput with the line and column of every problem.
    """
    try:
        return outline_plan(Pipeline.from_yaml(text))
    except PipelineError as error:
        raise describe_problems(error) from error


def check_texts(pipelines: Iterable[str | None], codes: Iterable[str | None]) -> CheckedTexts:
    """Return what agents' new texts are; raise BadInput for a code that is a script with problems.

    Called before a transaction: parsing takes long, and other writers wait for the transaction's lock.
    """
    read = {code: read_code(code) for code in set(codes) if code is not None and is_storable(code)}
    texts = {*pipelines, *(each.pipeline for each in read.values())}
    outlines = {text: outline_pipeline(text) for text in texts if text is not None and is_storable(text)}
    return CheckedTexts({text: outline for text, outline in outlines.items() if outline.fault is None}, read)


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
