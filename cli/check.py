"""`spindle check`: print the problems of a pipeline file, or its plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path

from cli.terminal import parse_parameters, read_transforms
from pipelines.browser.model import find_missing_browser
from pipelines.errors import PipelineError, Problem
from pipelines.local.engine_choice import choose_engine, find_engine_conflict, find_java_need
from pipelines.models.options import ModelOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.registry import load_plugins
from pipelines.requirements import find_missing_libraries
from pipelines.transforms.transform import Transforms


def check(file: Path, parameter: list[str], transforms: Path | None = None, as_json: bool = False) -> int:
    """Print the plan and its engine and return 0, or print the problems and return 1.

    Without parameters, the references without a default stay open. `transforms` is a file with row transforms. As
    JSON, the problems and warnings are a list on standard output, and the plan is not printed.
    """
    for failure in load_plugins().failures:
        print(f"warning: {failure}", file=sys.stderr)
    try:
        pipeline = Pipeline.from_yaml(file.read_text())
        own = read_transforms(transforms)
        values = parse_parameters(parameter)
        pipeline.check_names(values)
        plan = pipeline.plan(values, own) if parameter else pipeline.fill_defaults().plan_open(own)
    except PipelineError as error:
        _print_problems(file, error.problems, error.warnings, as_json)
        return 1
    except UnicodeDecodeError:
        problem = Problem("", "the file is not UTF-8 text", 1, 1, "invalid-encoding")
        _print_problems(file, [problem], [], as_json)
        return 1
    conflict = find_engine_conflict(plan)
    problems = [*find_missing_libraries(plan), *([conflict] if conflict else ())]
    _print_problems(file, problems, _find_warnings(plan, own), as_json)
    if problems:
        return 1
    if not as_json:
        print(plan)
        print(f"engine: {choose_engine(plan)}")
        for label, names in _group_parameters(pipeline).items():
            print(f"{label}: {', '.join(sorted(names))}")
        if plan.uses_model:
            print(f"model: {(plan.options.model or ModelOptions()).describe_budget()}")
    return 0


def _group_parameters(pipeline: Pipeline) -> dict[str, Collection[str]]:
    needed = pipeline.required_parameters
    groups = {"needed parameters": needed, "parameters with a default": pipeline.parameters - needed}
    return {label: names for label, names in groups.items() if names}


def _find_warnings(plan: Plan, transforms: Transforms) -> Iterable[Problem]:
    if plan.uses_browser and (missing := find_missing_browser()):
        yield Problem("", missing, code="missing-browser")
    if missing := find_java_need(choose_engine(plan)):
        yield missing
    if exposed := transforms.warning():
        yield Problem("", exposed, code="unsafe-transforms")
    yield from plan.warnings


def _print_problems(file: Path, errors: Iterable[Problem], warnings: Iterable[Problem], as_json: bool) -> None:
    problems = [("warning", each) for each in warnings] + [("error", each) for each in errors]
    if as_json:
        listed = [{**asdict(problem), "severity": severity} for severity, problem in problems]
        print(json.dumps(listed, ensure_ascii=False, indent=1))
        return
    for severity, problem in problems:
        position = f":{problem.line}:{problem.column or 1}" if problem.line else ":1:1" if severity == "error" else ""
        label = "" if severity == "error" else f" {severity}:"
        print(f"{file}{position}:{label} {problem.message}", file=sys.stderr)
