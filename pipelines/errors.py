"""Errors of pipelines: problems in a pipeline's text, and failures of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_PROBLEMS = 100  # each costs a search for similar names, and nobody reads more at once
TOO_MANY_PROBLEMS = f"the rest is not checked: there are {MAX_PROBLEMS} problems before it"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a pipeline's text.

    `path` is a path such as `pipeline[2].args[0]`, `line` and `column` count from 1, and `code` is stable
    (`unknown-stage`): programs can rely on it, while the wording of `message` may change.
    """

    path: str
    message: str
    line: int | None = None
    column: int | None = None
    code: str = "invalid-pipeline"

    def __str__(self) -> str:
        position = self.path if self.line is None else f"line {self.line}"
        return f"{position}: {self.message}" if position else self.message


class PipelineError(Exception):
    """A pipeline's text is not valid; `problems` are in the order of the text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ArgumentError(ValueError):
    """An argument is not valid; validators raise it to give the problem a code."""

    def __init__(self, message: str, code: str = "invalid-argument") -> None:
        super().__init__(message)
        self.code = code


class RunError(Exception):
    """A run failed; the message is a sentence that the pipeline's author can act on."""


def summarize_error(error: BaseException) -> str:
    """Return the first line of an error's message, without the error class and SQLSTATE that Spark adds.

    The line number that remains in it refers to the SQL expression, not to the pipeline.
    """
    line = next((line for line in str(error).splitlines() if line.strip()), "no further message")
    return re.sub(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w{5}.*", "", line.strip())[:500]
