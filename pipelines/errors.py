"""What can go wrong with a pipeline: problems in its text, and failures of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_PROBLEMS = 100  # nobody reads more at once, and each costs a search for what may have been meant
NOT_READ = f"from here on nothing was looked at: there are {MAX_PROBLEMS} problems before it"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where: `line` and `column` count from 1, `path` reads `pipeline[2].args[0]`."""

    message: str
    line: int | None = None
    column: int | None = None
    path: str = ""

    def __str__(self) -> str:
        place = self.path if self.line is None else f"line {self.line}"
        return f"{place}: {self.message}" if place else self.message


class PipelineError(Exception):
    """The text of a pipeline is wrong; `problems` has each of its faults with its line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def first_line(error: BaseException) -> str:
    """The first line of a message, without the class that Spark puts before it and its codes at the end.

    The line that Spark tells there is one of the SQL expression, which who reads it takes for the pipeline's.
    """
    line = next((line for line in str(error).splitlines() if line.strip()), "no further message")
    return re.sub(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w{5}.*", "", line.strip())[:500]


class RunError(Exception):
    """A run failed; the message is a sentence that a person can act on."""
