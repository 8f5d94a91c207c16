"""Errors of pipelines: problems in a pipeline's text, and failures of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_PROBLEMS = 100  # each costs a search for similar names, and nobody reads more at once
TOO_MANY_PROBLEMS = f"the rest is not checked: there are {MAX_PROBLEMS} problems before it"
_TRACE = "Traceback (most recent call last):\n"


PROBLEM_CODES = {
    "changes-not-seen": "An incremental pipeline leaves out known pages, and so does not see their changes.",
    "column-in-address": "A fixed address contains the name of a column, which is not replaced.",
    "conflicting-arguments": "Two arguments exclude each other.",
    "duplicate-column": "Two columns have the same name, or names that differ only in case.",
    "duplicate-key": "A key occurs twice in a map.",
    "duplicate-label": "An earlier stage stores rows under the same label.",
    "duplicate-path": "An earlier stage saves rows under the same path.",
    "empty-pipeline": "The text is empty.",
    "forbidden-column": "SQL refers to a column that reveals paths of the server.",
    "forbidden-function": "SQL calls a function that is not allowed.",
    "invalid-argument": "An argument has an invalid value.",
    "invalid-character": "The text contains a character that YAML does not allow.",
    "invalid-column-name": "A column's name is empty or cannot be stored.",
    "invalid-encoding": "The file is not UTF-8 text.",
    "invalid-function": "A row transform is not a function of the expected form.",
    "invalid-key": "A key of a map is not a plain name.",
    "invalid-pattern": "A regular expression is not valid.",
    "invalid-pipeline": "The pipeline is not valid for another reason.",
    "invalid-python": "The text of a row transform is not valid Python.",
    "invalid-selector": "A selector or path is not valid.",
    "invalid-sql": "An SQL expression or query is not valid.",
    "invalid-structure": "A part of the pipeline has the wrong form, such as a text instead of a map.",
    "invalid-type": "A row transform declares a column type that does not exist.",
    "invalid-xpath": "An XPath is not valid.",
    "invalid-yaml": "The text is not valid YAML.",
    "misplaced-option": "An option of the key spindle is among the arguments of a stage.",
    "missing-argument": "A required argument is missing.",
    "missing-libraries": "A format needs Java libraries that this machine lacks and cannot fetch.",
    "missing-browser": "The pipeline needs a browser, and this machine has none.",
    "missing-function": "The text of a row transform does not define its function.",
    "missing-key": "A required key of the pipeline is missing.",
    "missing-name": "A stage needs the name of a function.",
    "missing-parameter": "A parameter has no value.",
    "missing-java": "A part of the pipeline needs Spark, and this machine has no Java.",
    "python-agent": "The Python code of an agent gives no pipeline.",
    "needs-saves": "A run that does not publish saves nothing, and a stage reads what an earlier one would save.",
    "needs-spark": "The engine is to be local, and a part of the pipeline needs Spark.",
    "no-columns": "The pipeline makes no columns; its pages give url, status and title.",
    "no-model": "A stage may need a language model, and the pipeline names none.",
    "no-model-budget": "A stage may call a language model without a limit.",
    "no-page": "A stage needs a page, and the rows have none.",
    "no-rows": "A stage needs rows, and there are none.",
    "not-sent": "A request that is written is not sent, because nothing uses its page.",
    "null-column": "A stage reads an engine column that is null at this point.",
    "reserved-column": "A column's name is reserved for the engine.",
    "too-deep": "The text is nested too deep.",
    "too-large": "A text exceeds its size limit.",
    "too-many-arguments": "A stage has more arguments than it accepts.",
    "too-many-problems": "The rest of the pipeline is not checked.",
    "too-many-stages": "The pipeline has too many stages.",
    "unknown-action": "No trace action has this name.",
    "unknown-argument": "No argument has this name.",
    "unknown-check": "No check has this name.",
    "unknown-column": "No column has this name.",
    "unknown-key": "No key has this name.",
    "unknown-label": "No earlier stage stores rows under this label.",
    "unknown-method": "No extractor method has this name.",
    "unknown-parameter": "The pipeline has no parameter of this name.",
    "unknown-row-transform": "No row transform has this name.",
    "unknown-stage": "No stage has this name.",
    "unknown-table": "SQL refers to a table that is neither the view rows nor among the tables of its stage.",
    "unknown-value": "An argument has a value that is not one of its choices.",
    "inexact-package": "A package of row functions is not named once, in one exact version.",
    "no-wheel": "A package has no wheel for this machine, and packages are not built from source.",
    "package-conflict": "The packages, or their requirements, exclude each other.",
    "script-not-allowed": "The operator does not let the organization run scripts in pages.",
    "package-not-allowed": "The operator's list of packages does not have the package.",
    "unknown-package": "The index of packages does not have the package in this version.",
    "unsafe-transforms": "Row transforms run without a sandbox on this machine.",
    "unsupported-action": "This version does not support the trace action.",
    "unsupported-method": "This version does not support the extractor method.",
    "unsupported-mode": "The format has no such mode of writing.",
    "unsupported-severity": "The check judges all rows together, and so can set none of them aside.",
    "unsupported-yaml": "Anchors, aliases, tags and multiple documents are not supported.",
    "plugin-disabled": "A stage or row transform is of a plugin that the organization has disabled.",
    "unfit-partition": "The pipeline cannot write one partition of a dataset alone.",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a pipeline's text.

    `path` is a path like `pipeline[2].args[0]`, `line` and `column` count from 1, and `code` is one of
    PROBLEM_CODES: programs can rely on it, while the wording of `message` may change. `may_come` marks a name that is
    missing now and that a plugin may bring.
    """

    path: str
    message: str
    line: int | None = None
    column: int | None = None
    code: str = "invalid-pipeline"
    may_come: bool = False

    def __str__(self) -> str:
        position = self.path if self.line is None else f"line {self.line}"
        return f"{position}: {self.message}" if position else self.message


class PipelineError(Exception):
    """A pipeline's text is not valid; `problems` are in the order of the text, `warnings` may explain them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.warnings: tuple[Problem, ...] = ()
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ArgumentError(ValueError):
    """An argument is not valid; validators raise it to give the problem its `code` and `may_come`."""

    def __init__(self, message: str, code: str = "invalid-argument", may_come: bool = False) -> None:
        super().__init__(message)
        self.code, self.may_come = code, may_come


class SqlError(Exception):
    """A statement in Trino's SQL is refused, with one of the codes of the service's errors.

    The message is a sentence. `path` is the argument that has the fault, where it is one of a call.
    """

    def __init__(self, sentence: str, *, code: str, path: str = "") -> None:
        super().__init__(sentence)
        self.code, self.path = code, path


class RunError(Exception):
    """A run failed; the message is a sentence that the pipeline's author can act on.

    `line` is that of the stage that failed, or of the first one that may have, where it is known.
    """

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.line = line


class NeedsSpark(RunError):
    """One process cannot run the plan as Spark does; the message says why."""


class SparkEnded(RunError):
    """Spark ended before the run did; the same run may succeed another time."""


class StorageAway(RunError):
    """The storage did not answer; the same run may succeed another time."""


class AnswerPending(Exception):
    """The answer to a question is on its way: the row is read again once it has arrived."""


class StageFailed(RunError):
    """A stage failed in a worker; the message begins with the key of its step."""

    def __init__(self, key: str, error: Exception) -> None:
        kind = "" if isinstance(error, RunError) else f"{type(error).__name__}: "
        super().__init__(f"{key}: {kind}{summarize_error(error)}")


def summarize_error(error: BaseException) -> str:
    """Return the first line of an error's message, without the error class and SQLSTATE that Spark adds.

    Of a Python trace in the message, it is the line with the exception. The line number that remains in a message about
    SQL refers to the expression, not to the pipeline.
    """
    _, trace, text = str(error).rpartition(_TRACE)
    lines = (line for line in text.splitlines() if line.strip() and not (trace and line.startswith(" ")))
    return re.sub(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w{5}.*", "", next(lines, "no further message").strip())[:500]
