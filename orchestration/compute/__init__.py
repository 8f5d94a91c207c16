"""Where drivers run. Callers know this protocol and no implementation of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Status:
    """A driver as it is seen now. The exit code is None while it runs, and where nobody can know it any more."""

    running: bool
    exit_code: int | None = None


class Compute(Protocol):
    """Starts, watches and stops drivers. A driver is known by its name, which outlives the process that started it."""

    def launch(self, name: str, spec_path: Path, environment: Mapping[str, str], log_path: Path) -> None:
        """Starts the driver of this spec; `environment` holds its secrets, `log_path` takes what it prints."""
        ...

    def observe(self, name: str) -> Status: ...

    def cancel(self, name: str) -> None:
        """Asks the driver to end and makes it end 10 s later. Does nothing when it is gone."""
        ...

    def names(self) -> tuple[str, ...]:
        """The drivers that were started and not yet seen to end, whoever started them."""
        ...


def driver_name(execution_id: str, attempt: int) -> str:
    return f"{execution_id}.{attempt}"


def execution_of(name: str) -> tuple[str, int]:
    """The execution that a driver of this name works for, and its attempt."""
    execution_id, _, attempt = name.rpartition(".")
    return execution_id, int(attempt)
