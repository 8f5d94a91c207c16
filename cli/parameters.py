"""What pipelines are given on the command line: parameters as NAME=value, row transforms as a file."""

from __future__ import annotations

from pathlib import Path

import typer

from pipelines import PipelineError, Problem, Transforms


def parameters(arguments: list[str]) -> dict[str, str]:
    """The values by name; raises typer.BadParameter for one without `=`."""
    values: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"'{argument}' is not of the form NAME=value")
        values[name] = value
    return values


def transforms_of(file: Path | None) -> Transforms:
    """The functions of a Python file as row transforms; raises PipelineError with the file's name."""
    try:
        return Transforms.of_text(file.read_text()) if file else Transforms()
    except PipelineError as error:
        raise PipelineError(Problem(f"{file}: {each}") for each in error.problems) from error
