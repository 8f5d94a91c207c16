"""`spindle check`: print the problems of a pipeline file, or its plan."""

from __future__ import annotations

import sys
from pathlib import Path

from cli.terminal import parse_parameters, read_transforms
from pipelines.errors import PipelineError
from pipelines.pipeline import Pipeline
from pipelines.planning.requirements import find_missing_browser
from pipelines.registry.catalog import load_plugins


def check(file: Path, parameter: list[str], transforms: Path | None = None) -> int:
    """Prints the plan and returns 0; or prints each problem with its line and returns 1.

    Without parameters, those that the file names stay open. `transforms` is a file with the row transforms.
    """
    for failure in load_plugins():
        print(f"warning: {failure}", file=sys.stderr)
    try:
        pipeline = Pipeline.from_yaml(file.read_text())
        own = read_transforms(transforms)
        plan = pipeline.plan(parse_parameters(parameter), own) if parameter else pipeline.plan_open(own)
    except PipelineError as error:
        for problem in error.problems:
            print(f"{file}:{problem.line or 1}:{problem.column or 1}: {problem.message}", file=sys.stderr)
        return 1
    except UnicodeDecodeError:
        print(f"{file}:1:1: the file is not UTF-8 text", file=sys.stderr)
        return 1
    if missing := find_missing_browser(plan):
        print(f"{file}: warning: {missing}", file=sys.stderr)
    if exposed := own.warning():
        print(f"{file}: warning: {exposed}", file=sys.stderr)
    for warning in plan.warnings:
        print(f"{file}:{warning.line or 1}: warning: {warning.message}", file=sys.stderr)
    print(plan)
    return 0
