"""Arguments that several commands take, and text from elsewhere that is safe to print on a terminal."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import typer
from rich.text import Text

from pipelines.errors import PipelineError, Problem
from pipelines.transforms.transform import Transforms


def parse_parameters(arguments: list[str]) -> dict[str, str]:
    """Return the values of NAME=value arguments by name; raise typer.BadParameter for any other form."""
    values: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"'{argument}' is not of the form NAME=value")
        values[name] = value
    return values


def read_transforms(file: Path | None) -> Transforms:
    """Read the functions of a Python file as row transforms; raise PipelineError with the file's name."""
    try:
        return Transforms.from_text(file.read_text()) if file else Transforms()
    except PipelineError as error:
        raise PipelineError(Problem("", f"{file}: {each}", code=each.code) for each in error.problems) from error


def escape_text(text: str, style: str = "") -> Text:
    """Return text without markup in which control and format characters, except newline and tab, are replaced."""
    return Text("".join("\ufffd" if _is_control(character) else character for character in text), style)


def _is_control(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character).startswith("C")
