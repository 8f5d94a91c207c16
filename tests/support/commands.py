"""The `spindle` command called within the test's process."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from typer.testing import Result

LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[")


@dataclass(frozen=True)
class Ran:
    """What the command printed, without what the API of this process logged meanwhile."""

    exit_code: int
    output: str

    @classmethod
    def of(cls, result: Result) -> Ran:
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        lines = result.output.splitlines(keepends=True)
        return cls(result.exit_code, "".join(line for line in lines if not LOGGED.search(line)))


Spindle = Callable[..., Ran]
