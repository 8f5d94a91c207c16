"""Arguments that several commands take, and escaping of text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipelines.contract.request import GIVEN_ROWS, Files
from pipelines.errors import PipelineError, Problem, RunError
from pipelines.planning.plan import Plan
from pipelines.transforms.transform import Transforms

# loopback and private networks, which belong to the user on a machine of their own
OWN_NETWORKS = ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
ID_WIDTH = 36
PIPE_WIDTH = 1_000  # without a terminal, lines are not cut


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


def find_inputs(plan: Plan, rows: Path | None) -> dict[str, Files]:
    """Return the file of --rows as the input of the plan's load_rows; raise RunError for one without the other."""
    reads = any(step.stage and step.stage.reads_given_rows for step in plan.steps)
    if reads and rows is None:
        raise RunError("load_rows begins with rows that are given to a run: name their file by --rows FILE")
    if rows is not None and not reads:
        raise RunError("no stage of the pipeline reads the file of --rows: begin it with load_rows")
    return {} if rows is None else {GIVEN_ROWS: Files((str(rows.absolute()),))}


def format_count(count: int, nouns: str) -> str:
    """Return a count with its noun, which is given in the plural and ends in s: "1 row", "2,000 rows"."""
    return f"{count:,} {nouns.removesuffix('s') if count == 1 else nouns}"


def escape_text(text: str, style: str = "") -> Text:
    """Return text without markup in which control and format characters, except newline and tab, are replaced."""
    return Text("".join("\ufffd" if _is_control(character) else character for character in text), style)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], console: Console | None = None) -> None:
    """Print rows in aligned columns, as wide as they are where the standard output, or `console`, is no terminal."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        # ids are copied from here: never cut or fold them
        table.add_column(heading, overflow="fold", min_width=ID_WIDTH if heading == "Id" else None)
    for row in rows:
        table.add_row(*map(escape_text, row))
    console = console or Console(highlight=False)
    console.print(table, width=None if console.is_terminal else PIPE_WIDTH, highlight=False)


def print_blocks(headings: Sequence[str], blocks: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
    """Print rows in aligned columns, each with its details in lines of their own below."""
    rows = list(blocks)
    console = Console(highlight=False)
    width = console.width if console.is_terminal else PIPE_WIDTH
    cells = [headings, *(row for row, _ in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    for row, details in [(headings, ()), *rows]:
        line = "  ".join(value.ljust(size) for value, size in zip(row, widths, strict=True))
        console.print(escape_text(line.rstrip()), width=width)
        for detail in details:
            console.print(Padding(escape_text(detail), (0, 0, 0, 4), expand=False), width=width)


def _is_control(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character).startswith("C")
