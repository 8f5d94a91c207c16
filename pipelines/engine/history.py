"""Histories: an output with one row per key and state, which is valid from one run's acceptance to another's."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from pipelines.columns.appending import ColumnTypes, describe_equal_keys
from pipelines.contract.report import Changes
from pipelines.contract.request import Target
from pipelines.errors import RunError
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.language.formats import HISTORY_TYPES, describe_history_column, find_history_column
from pipelines.planning.model import Output, Vanished

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Transition:
    """How the rows of a run become states: those of missing keys end at `at`, unless `gap` says why they stay."""

    output: Output
    target: Target
    at: datetime
    gap: str | None

    @property
    def retires(self) -> bool:
        """Whether the states of missing keys end."""
        return self.gap is None and self.output.vanished is Vanished.RETIRE

    @property
    def continues(self) -> bool:
        """Whether the target has a history; otherwise the run begins one."""
        names = {name for name, _ in self.target.columns}
        return self.target.exists and self.target.format == self.output.format and names.issuperset(HISTORY_TYPES)

    @property
    def earlier_types(self) -> ColumnTypes:
        """The columns of the target's rows, without those of the history itself."""
        return [each for each in self.target.columns if each[0] not in HISTORY_TYPES]

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise RunError for rows with a column of the history, and for keys that the target lacks."""
        if taken := find_history_column(columns):
            raise RunError(describe_history_column(taken))
        known = {name.casefold() for name, _ in self.earlier_types}
        for key in self.output.keys if self.continues else ():
            if key.casefold() not in known:
                raise RunError(
                    f"the history has no column '{key}', which 'keys' name: its keys were others; "
                    "give it these, or write to another path"
                )

    def list_compared(self, columns: Iterable[str]) -> list[str]:
        """Return those of the run's columns whose values make a new state where they differ."""
        output, known = self.output, {name.casefold() for name, _ in self.earlier_types}
        left_out = {name.casefold() for name in (*output.keys, *output.ignore, *ENGINE_COLUMNS)}
        return [name for name in columns if name.casefold() in known - left_out]

    def finish(self, states: States) -> Changes:
        """Log and return the changes; raise RunError where the states contradict those of the target."""
        if states.repeated:
            raise RunError(
                f"the history has several current rows with the same {', '.join(self.output.keys)}: its keys were "
                "others; give it these, or write to another path"
            )
        changes = states.changes
        if changes.any and states.latest is not None and states.latest >= self.at:
            raise RunError(
                f"the history has states from {states.latest.isoformat()} on, and this execution was accepted before, "
                f"at {self.at.isoformat()}: run the job again"
            )
        if self.target.exists and not self.continues:
            _log.warning("the rows that the dataset has are no history: one begins with this run")
        if states.kept and self.gap:
            fields = {"keys": states.kept, "reason": self.gap}
            _log.warning("keys without a row stay current, because the run has not covered its source: %s", self.gap)
            _log.info("keys that stay current", extra={"fields": fields})
        _log.info("changes of the history", extra={"fields": asdict(changes)})
        return changes


@dataclass(frozen=True, slots=True)
class States:
    """The findings of a run: changes, missing keys that were `kept`, and the `latest` time in the history.

    `run_rows` are those of the run. `repeated` means that several current rows of the history have the same keys.
    """

    changes: Changes
    kept: int = 0
    latest: datetime | None = None
    run_rows: int = 0
    repeated: bool = False


def describe_key_fault(keys: Sequence[str], values: Sequence[object]) -> str:
    """Return the sentence for rows with the same keys, or with a key without a value."""
    missing = next((key for key, value in zip(keys, values, strict=True) if value is None), None)
    if missing is None:
        return describe_equal_keys(keys, values)
    others = [f"{key} {value!r}" for key, value in zip(keys, values, strict=True) if value is not None]
    found = f" ({', '.join(others)})" if others else ""
    return f"a row has no value in its key '{missing}'{found}: a history needs one; filter such rows out before it"
