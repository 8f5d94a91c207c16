"""The outcome of a driver, read from its last report and the messages of its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster import Failure

from core.tables.states import State
from orchestration.driver_messages import Message
from pipelines.contract.request import PlannedStep

INTERRUPTED = "The run ended before its driver did: the run's page in Dagster shows an error."
STOPPED = "Spindle was stopped while the execution was running."
ENDED_WITH_SERVICE = "Its driver ended together with the service."


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the execution ended: with the completion payload where the driver sent one, and the line where it failed."""

    state: State
    sentence: str = ""
    payload: Message | None = None
    line: int | None = None

    def list_checks(self) -> Sequence[Message]:
        """Return the results of the pipeline's checks; empty where the driver has not computed them."""
        return (self.payload or {}).get("additionalMetrics", {}).get("progress", {}).get("checks", ())

    def find_failed_stage(self, stages: Mapping[str, Message], steps: Sequence[PlannedStep]) -> str | None:
        """Return the stage that the execution failed in: `publish` for a failed check, None if it is unknown.

        All stages of a pass end together; the driver reports the line of the one that failed.
        """
        if self.state is not State.FAILED:
            return None
        if any(not each["passed"] and each["severity"] != "warn" for each in self.list_checks()):
            return "publish"
        failed = [key for key, stage in stages.items() if stage.get("state") == State.FAILED]
        named = {step.key for step in steps if step.line is not None and step.line == self.line}
        return min(failed, key=lambda key: key not in named, default=None)


def make_failure(sentence: str, metadata: Mapping[str, Any] | None = None) -> Failure:
    """Return the exception that fails a step."""
    return Failure(sentence, metadata, allow_retries=False)
