"""What the states of a pod mean, in the shapes that Kubernetes 1.34 gives them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestration.compute.kubernetes.status import Phase, describe_pod

NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)
PATIENCE = timedelta(minutes=5)


def make_pod(phase: str, container: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    containers = [{"name": "driver", "image": "spark:1", "state": container}] if container else []
    return {"metadata": {"name": "pod"}, "status": {"phase": phase, "containerStatuses": containers, **status}}


def make_unscheduled(minutes: float) -> dict[str, Any]:
    since = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    return make_pod("Pending", conditions=[{**condition, "message": "0/1 nodes are available: 1 Insufficient cpu."}])


@pytest.mark.parametrize(
    ("pod", "phase"),
    [
        (make_pod("Pending"), Phase.WAITS),
        (make_pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), Phase.WAITS),
        (make_pod("Pending", {"waiting": {"reason": "ErrImagePull", "message": "timeout"}}), Phase.WAITS),
        (make_unscheduled(4), Phase.WAITS),
        (make_pod("Running", {"running": {}}), Phase.RUNS),
    ],
)
def test_a_pending_pod_is_alive(pod: dict[str, Any], phase: Phase) -> None:
    status = describe_pod(pod, NOW, PATIENCE)
    assert (status.phase, status.reason) == (phase, None)
    assert status.to_driver_status().running


@pytest.mark.parametrize(
    ("pod", "code", "sentence"),
    [
        (make_pod("Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}), 0, None),
        (make_pod("Failed", {"terminated": {"exitCode": 3, "reason": "Error"}}), 3, None),
        (make_unscheduled(6), None, "No node of the cluster had room for the driver in 5 min: 0/1 nodes are available"),
        (
            make_pod("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}),
            None,
            "The driver's image spark:1 cannot be pulled: not found",
        ),
        (
            make_pod("Failed", {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
            137,
            "The driver was killed because it needed more memory than its pod may have.",
        ),
        (
            make_pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            None,
            "The cluster evicted the driver's pod: The node was low on resource: memory.",
        ),
        (
            make_pod(
                "Failed",
                conditions=[
                    {"type": "DisruptionTarget", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
                ],
            ),
            None,
            "The cluster ended the driver's pod: PodGC: node no longer exists",
        ),
    ],
)
def test_an_ended_pod_says_why(pod: dict[str, Any], code: int | None, sentence: str | None) -> None:
    status = describe_pod(pod, NOW, PATIENCE)
    assert (status.phase, status.exit_code) == (Phase.ENDED, code)
    assert (status.reason or "").startswith(sentence or "")
    assert (status.reason is None) == (sentence is None)
