"""The golden file of problems: YAML snippets, each followed by the problems that a check of it reports.

A line `>>> LINE:COLUMN CODE [PATH] SENTENCE` is a problem; an empty line ends a case. To add one, write its snippet
and run `UPDATE_PROBLEMS=1 pytest tests/pipelines/planning/test_problems.py`, which adds its problems.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipelines.errors import PipelineError
from pipelines.pipeline import check_yaml

FILE = Path(__file__).with_name("problems.txt")
_MARK = ">>> "


def read_cases() -> Iterator[tuple[str, str]]:
    """Yield the snippet of each case and its expected problems."""
    for case in FILE.read_text().split("\n\n"):
        lines = f"{case.strip()}\n".splitlines(keepends=True)
        text = "".join(line for line in lines if not line.startswith(_MARK))
        expected = "".join(line.rstrip("\n") + "\n" for line in lines if line.startswith(_MARK))
        if text.strip():
            yield text, expected


def format_problems(text: str) -> str:
    """Return the problems that a check of the text reports, as the golden file has them."""
    try:
        warnings = check_yaml(text).check()
    except PipelineError as error:
        problems = error.problems
    else:
        problems = warnings
    return "".join(f"{_MARK}{each.line}:{each.column} {each.code} [{each.path}] {each.message}\n" for each in problems)


def write_cases() -> None:
    """Write the golden file with the problems that are reported now."""
    FILE.write_text("\n".join(text + format_problems(text) for text, _ in read_cases()))
