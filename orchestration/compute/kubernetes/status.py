"""The state of a driver's pod, in words: whether it runs, and why it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from core.infra.pods import EXIT_CODE
from orchestration.compute.protocol import DriverStatus

PodState = Mapping[str, Any]  # a pod as the API server describes it

# a container that waits for one of these reasons starts only when somebody changes something
_NO_IMAGE = frozenset({"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"})
_NO_CONTAINER = frozenset({"CreateContainerError", "RunContainerError"})
_OUT_OF_MEMORY = "OOMKilled"
MAX_MESSAGE = 300  # characters of the cluster's own words


class Phase(StrEnum):
    """The state of a pod, as far as its execution is concerned."""

    WAITS = "waits"
    RUNS = "runs"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class PodStatus:
    """The phase of a pod, and for one that ended its exit code and the reason as a sentence.

    One that waits may lack room: no node has enough for it.
    """

    phase: Phase
    exit_code: int | None = None
    reason: str | None = None
    lacks_room: bool = False

    def to_driver_status(self) -> DriverStatus:
        return DriverStatus(self.phase is not Phase.ENDED, self.exit_code, self.reason)


def describe_pod(pod: PodState, at: datetime, patience: timedelta) -> PodStatus:
    """Return the status of a pod for the execution of its labels.

    One that cannot be scheduled for longer than `patience` has ended.
    """
    status: Mapping[str, Any] = pod.get("status", {})
    if exit_code := pod["metadata"].get("labels", {}).get(EXIT_CODE):
        return PodStatus(Phase.ENDED, int(exit_code))
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") == "Pending":
        return PodStatus(Phase.ENDED, reason="The driver's pod was deleted before it had started.")
    match status.get("phase"):
        case "Running":
            return PodStatus(Phase.RUNS)
        case "Succeeded" | "Failed":
            return _describe_end(status)
        case _:
            return _describe_wait(status, at, patience)


def _describe_wait(status: Mapping[str, Any], at: datetime, patience: timedelta) -> PodStatus:
    waiting = _find_container(status).get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), _shorten(waiting.get("message", ""))
    if reason in _NO_IMAGE:
        image = _find_container(status).get("image", "")
        return PodStatus(Phase.ENDED, reason=f"The driver's image {image} cannot be pulled: {message or reason}")
    if reason in _NO_CONTAINER:
        return PodStatus(Phase.ENDED, reason=f"The driver's container cannot be started: {message or reason}")
    unplaced = [each for each in _list_conditions(status, "PodScheduled") if each.get("status") == "False"]
    for condition in unplaced:
        text = condition.get("lastTransitionTime")
        since = datetime.fromisoformat(text) if text else None
        if since and at - since > patience:
            minutes = f"{patience.total_seconds() / 60:g} min"
            why = _shorten(condition.get("message", "")) or condition.get("reason", "")
            return PodStatus(Phase.ENDED, reason=f"No node of the cluster had room for the driver in {minutes}: {why}")
    return PodStatus(Phase.WAITS, lacks_room=bool(unplaced))


def _describe_end(status: Mapping[str, Any]) -> PodStatus:
    terminated = _find_container(status).get("state", {}).get("terminated", {})
    code = terminated.get("exitCode")
    message = _shorten(status.get("message", ""))
    if terminated.get("reason") == _OUT_OF_MEMORY:
        sentence = (
            "The driver was killed because it needed more memory than its pod may have. Raise "
            "SPINDLE_KUBERNETES_DRIVER_MEMORY."
        )
        return PodStatus(Phase.ENDED, code, sentence)
    if status.get("reason") == "Evicted":
        return PodStatus(Phase.ENDED, code, f"The cluster evicted the driver's pod: {message}")
    for condition in _list_conditions(status, "DisruptionTarget"):
        why = _shorten(condition.get("message", "")) or condition.get("reason", "")
        return PodStatus(Phase.ENDED, code, f"The cluster ended the driver's pod: {why}")
    if status.get("reason"):
        return PodStatus(Phase.ENDED, code, f"The driver's pod failed with {status['reason']}: {message}")
    return PodStatus(Phase.ENDED, code)


def _find_container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(iter(status.get("containerStatuses") or ()), {})


def _list_conditions(status: Mapping[str, Any], kind: str) -> Sequence[Mapping[str, Any]]:
    return [each for each in status.get("conditions") or () if each.get("type") == kind]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}…"
