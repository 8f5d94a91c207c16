"""Pods of drivers that wait for another execution: found, claimed, and ended where others need their room.

A claim is a change of the labels that name the pod's execution, under the condition that nobody has changed the pod
since it was read. The same condition holds for the end of a pod, so that it takes no execution with it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from core.infra.cluster import Cluster
from core.infra.pods import EXIT_CODE, ORGANIZATION, POOL
from core.infra.settings import Settings
from core.lifecycle.executions.pod_options import apply_pods
from driver.transport import HostRequest
from orchestration.compute.kubernetes.channel import send_execution
from orchestration.compute.kubernetes.executors import configure_spark
from orchestration.compute.kubernetes.pod_watch import PodWatch
from orchestration.compute.kubernetes.pods import (
    TERMINATION_SECONDS,
    build_pod,
    has_attempt,
    is_idle,
    label_attempt,
)
from orchestration.compute.protocol import DriverHandle
from pipelines.contract.request import RunRequest
from pipelines.spark.cluster import is_local_master

GONE_SECONDS = 10.0  # from the deletion of a pod to its end, before it is forced
PAUSE_SECONDS = 0.25
CLAIM_TRIES = 3  # the kubelet changes a pod too
_ENDED = ("Succeeded", "Failed")

log = structlog.get_logger()


def find_pool(settings: Settings, spec: RunRequest) -> str | None:
    """Return a digest of the settings that executions must have in common to share pods.

    None for an execution that needs a new pod: with credentials, which the page of Spark would show to the next
    one, with plugins or another build, or with executors, whose workers keep the code of users.
    """
    has_secrets = bool(spec.credentials.keys() - {*spec.public_variables})
    is_alone = has_secrets or spec.has_own_process or not is_local_master(settings.spark.master)
    if is_alone or not spec.reuses_driver or settings.drivers.executions == 1:
        return None
    chosen, nobody = apply_pods(settings, spec.pods), DriverHandle("", "", 0)
    parts = [
        configure_spark(chosen, "", spec).spark.model_dump(mode="json"),
        build_pod(chosen, nobody, (), ())["spec"],
        settings.drivers.executions,
        settings.drivers.idle_minutes,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class IdlePods:
    """The idle pods of an installation."""

    def __init__(self, settings: Settings, cluster: Cluster, pods: PodWatch) -> None:
        self._settings = settings
        self._cluster = cluster
        self._pods = pods

    def take(self, handle: DriverHandle, spec: RunRequest, variables: Mapping[str, str]) -> str | None:
        """Give an execution to a pod that fits; return its name, or None without one."""
        pool = find_pool(self._settings, spec)
        if pool is None:
            return None
        wanted = {POOL: pool, ORGANIZATION: handle.organization_id}
        for name in self._list_names(wanted):
            pod = self._claim(name, handle)
            if pod is None:
                continue
            request = HostRequest(spec=configure_spark(self._settings, name, spec), environment=variables)
            if send_execution(self._settings, name, pod["status"].get("podIP", ""), request):
                self._pods.await_change(name, label_attempt(handle))
                return name
            log.warning("a driver that waited for an execution does not answer", pod=name)
            remove_pod(self._cluster, name, lambda pod: has_attempt(pod, handle))  # it may have taken it
        return None

    def release(self, name: str, handle: DriverHandle, exit_code: int) -> bool:
        """Let others find the pod, whose execution has ended; return False when the pod itself has ended."""
        while (pod := self._cluster.find_pod(name)) is not None:
            if pod["status"].get("phase") in _ENDED:
                return False
            if not has_attempt(pod, handle) or is_idle(pod):
                return True
            if self._cluster.set_labels(pod, {EXIT_CODE: str(exit_code)}):
                self._pods.await_change(name, {EXIT_CODE: str(exit_code)})
                return True
        return True

    def make_room(self, most: int) -> None:
        """End an idle pod where that many exist."""
        if sum(pod["status"].get("phase") not in _ENDED for pod in self._pods.list()) >= most:
            self.end_one()

    def end_one(self) -> bool:
        """End the oldest idle pod, and wait until it is deleted; return False without one."""
        names = self._list_names({})
        if names:
            remove_pod(self._cluster, names[-1], is_idle)
        return bool(names)

    def _claim(self, name: str, handle: DriverHandle) -> dict[str, Any] | None:
        """Change the labels of an idle pod to those of an attempt; None when another one is faster."""
        for _ in range(CLAIM_TRIES):
            pod = self._cluster.find_pod(name)
            if pod is None or not is_idle(pod) or pod["metadata"].get("deletionTimestamp"):
                return None
            if claimed := self._cluster.set_labels(pod, {**label_attempt(handle), EXIT_CODE: None}):
                return claimed
        return None

    def _list_names(self, labels: Mapping[str, str]) -> list[str]:
        """Return the names of idle pods with these labels, the newest first: names begin with a time."""
        metadata = (pod["metadata"] for pod in self._pods.list() if is_idle(pod))
        found = (each for each in metadata if labels.items() <= each["labels"].items())
        return sorted((each["name"] for each in found if not each.get("deletionTimestamp")), reverse=True)


def remove_pod(cluster: Cluster, name: str, may_end: Callable[[dict[str, Any]], bool]) -> None:
    """Delete a pod while it `may_end`, and wait for its end, which is forced where its node does not answer."""
    deadline = time.monotonic() + GONE_SECONDS
    while (pod := cluster.find_pod(name)) is not None and may_end(pod):
        metadata, is_late = pod["metadata"], time.monotonic() > deadline
        if is_late or not metadata.get("deletionTimestamp"):
            cluster.delete_pod(name, 0 if is_late else TERMINATION_SECONDS, metadata["resourceVersion"])
        time.sleep(PAUSE_SECONDS)
