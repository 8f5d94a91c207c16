"""Compute on Kubernetes: the driver of an attempt is a pod, which outlives the Dagster run.

An execution waits for its turn (driver_queue.py) before it gets a pod, one that waits for another execution
(idle_pods.py) or a new one: pods that wait for a node have no order.

The pod's state is in the cluster, so any process can observe and stop it. The run's process copies the driver's log to
this machine (pod_log.py), and from there to the storage, as it does with any driver's log (log_copies.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from core.errors import Unavailable
from core.infra.cluster import Cluster, Refused
from core.infra.pods import EXIT_CODE
from core.infra.settings import Settings
from core.infra.storage import get_local_folder
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import log_key
from core.lifecycle.executions.pod_options import apply_pods
from core.lifecycle.executions.tokens import derive_log_mark
from driver.host_folder import ENVIRONMENT_FILE, SPEC_FILE
from driver.messages import MARK_VARIABLE
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.kubernetes.channel import build_channel_files
from orchestration.compute.kubernetes.executors import build_executor_template, configure_spark
from orchestration.compute.kubernetes.idle_pods import IdlePods, find_pool, remove_pod
from orchestration.compute.kubernetes.pod_log import PodLog
from orchestration.compute.kubernetes.pod_watch import PodWatch
from orchestration.compute.kubernetes.pods import (
    EXECUTOR_TEMPLATE,
    MAX_SECRET_BYTES,
    build_pod,
    build_secret,
    has_attempt,
    is_idle,
    label_attempt,
    name_pod,
    parse_handle,
    select_drivers,
)
from orchestration.compute.kubernetes.status import Phase, PodStatus, describe_pod
from orchestration.compute.log_copies import LogCopies, read_last_lines, read_part
from orchestration.compute.protocol import (
    DriverHandle,
    DriverSource,
    DriverStatus,
    Launch,
    LaunchFailed,
    PodType,
    Wait,
)
from orchestration.driver_messages import DriverMessages
from pipelines.contract.request import RunRequest
from pipelines.spark.cluster import has_executor_pods

OBSERVE_SECONDS = 0.5  # between two looks at one pod
OUTAGE_SECONDS = 120.0  # in which the last known state of a pod counts while the API server is away
LAUNCH_OUTAGE_SECONDS = 60.0
PAUSE_SECONDS = 0.5
ROOM_SECONDS = 10.0  # from the end of an idle pod until its room should have been given to another one
QUOTA = "quota"  # in the refusal of a pod that is one too many
LAST_LINES_SECONDS = 5.0
DELETED = "The driver's pod was deleted, or its node is gone."
NO_PLACE = PodStatus(Phase.ENDED)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Seen:
    status: PodStatus
    at: float


class KubernetesCompute:
    """Implements Compute with pods."""

    outlives_service = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cluster = Cluster(settings)
        data = settings.data.resolve()
        self._pods = PodWatch(self._cluster, data / "pods", select_drivers(settings))
        self._idle = IdlePods(settings, self._cluster, self._pods)
        self.queue = DriverQueue(settings.kubernetes.drivers, self._count_working)
        self._files = LocalStorage(get_local_folder(settings.storage))
        self._copies = LogCopies(settings, self._files)
        self._patience = timedelta(minutes=settings.kubernetes.pending_minutes)
        self._logs: dict[DriverHandle, PodLog] = {}
        self._names: dict[DriverHandle, str] = {}
        self._seen: dict[DriverHandle, _Seen] = {}

    def launch(
        self,
        spec: RunRequest,
        secrets: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        wait: Wait | None = None,
    ) -> Launch | None:
        handle, began = DriverHandle(spec.organization_id, spec.execution_id, spec.attempt), time.monotonic()
        wait = wait or _sleep
        variables = {**(environment or {}), **secrets}
        source = self.queue.serve(spec, lambda _: self._find_driver(handle, spec, variables, wait), wait)
        if source is None:
            return None
        next_room = began
        while True:
            status = self._look(handle)
            if status.phase is Phase.ENDED and status.exit_code is None:
                self.cancel(handle)
                raise LaunchFailed(status.reason or DELETED)
            if status.phase is not Phase.WAITS:
                break
            if status.lacks_room and time.monotonic() >= next_room and self._idle.end_one():
                next_room = time.monotonic() + ROOM_SECONDS
            if not wait(PAUSE_SECONDS):
                self.cancel(handle)
                return None
        self.follow(handle)
        return Launch(handle, source, self._get_name(handle), time.monotonic() - began)

    def _find_driver(
        self, handle: DriverHandle, spec: RunRequest, variables: Mapping[str, str], wait: Wait
    ) -> DriverSource | None:
        """Give the execution to an idle pod, or to a new one; None when nobody wants them any more."""
        began_at = time.time()
        try:
            name = self._idle.take(handle, spec, self._mark(handle, variables))
        except (Unavailable, Refused) as error:  # the creation of a pod waits for the API server
            log.warning("no driver that waits can be taken", execution_id=handle.execution_id, reason=error.sentence)
            name = None
        if name is None:
            return DriverSource.NEW if self._create(handle, spec, variables, wait) else None
        self._names[handle] = name
        self._logs[handle] = self._open_log(handle, began_at)
        self._logs[handle].start()
        return DriverSource.WARM

    def _count_working(self) -> int:
        """Return how many drivers have a pod that has not ended; 0 while the cluster does not say it."""
        try:
            states = [describe_pod(pod, datetime.now(UTC), self._patience) for pod in self._pods.list()]
        except Unavailable:  # the creation of a pod waits for the API server, and knows how long
            return 0
        return sum(each.phase is not Phase.ENDED for each in states)

    def _create(self, handle: DriverHandle, spec: RunRequest, variables: Mapping[str, str], wait: Wait) -> bool:
        """Create the pod and its Secret, again while the API server is away; False when nobody wants them any more."""
        settings, pool = apply_pods(self._settings, spec.pods), find_pool(self._settings, spec)
        files = {SPEC_FILE: configure_spark(settings, name_pod(handle), spec).to_json()}
        if has_executor_pods(settings.spark.master):
            files[EXECUTOR_TEMPLATE] = build_executor_template(settings, handle)
        if pool:  # these variables are of the first execution only, and not of the process
            files |= {
                ENVIRONMENT_FILE: json.dumps(self._mark(handle, variables)),
                **build_channel_files(settings, name_pod(handle)),
            }
            variables = {}
        size = sum(len(each.encode()) for each in (*files.values(), *variables.values()))
        if size > MAX_SECRET_BYTES:
            raise LaunchFailed(
                f"The execution's specification has {size:,} bytes; a Secret of Kubernetes takes {MAX_SECRET_BYTES:,}."
            )
        manifest = build_pod(settings, handle, variables, files, EXECUTOR_TEMPLATE in files, pool)
        deadline = time.monotonic() + LAUNCH_OUTAGE_SECONDS
        while True:
            try:
                self._idle.make_room(self._settings.kubernetes.drivers)
                pod = self._cluster.create_pod(manifest)
                uid = pod["metadata"]["uid"]
                self._cluster.create_secret(build_secret(self._settings, handle, uid, {**files, **variables}))
            except Refused as error:
                self._cluster.delete_pod(name_pod(handle), 0)
                if QUOTA not in error.sentence or not self._idle.end_one():
                    raise LaunchFailed(error.sentence) from error
            except Unavailable as error:
                if time.monotonic() > deadline:
                    raise LaunchFailed(f"The driver's pod was not created: {error.sentence}") from error
                if not wait(PAUSE_SECONDS):
                    return False
            else:
                self._pods.await_change(name_pod(handle), label_attempt(handle))
                return True

    def follow(self, handle: DriverHandle) -> None:
        if handle not in self._logs:
            self._logs[handle] = self._open_log(handle)
            self._logs[handle].start()

    def _open_log(self, handle: DriverHandle, began_at: float | None = None) -> PodLog:
        name, mark = self._get_name(handle), self._derive_mark(handle)
        path, is_first = self._log_path(handle), name == name_pod(handle)
        return PodLog(self._cluster, name, path, self._message_path(handle), mark, is_first, began_at)

    def _mark(self, handle: DriverHandle, variables: Mapping[str, str]) -> Mapping[str, str]:
        """Add the mark by which a driver shows where the execution begins and ends in its log."""
        return {**variables, MARK_VARIABLE: self._derive_mark(handle)}

    def _derive_mark(self, handle: DriverHandle) -> str:
        return derive_log_mark(self._settings, handle.execution_id, handle.attempt)

    def _get_name(self, handle: DriverHandle) -> str:
        return self._names.get(handle, name_pod(handle))

    def _find(self, handle: DriverHandle) -> dict[str, Any] | None:
        """Return the pod that has the attempt, or had it last; None without one. Raises Unavailable."""
        pod = self._pods.find(self._get_name(handle), label_attempt(handle))
        if pod is not None:
            self._names[handle] = pod["metadata"]["name"]
        return pod

    def observe(self, handle: DriverHandle) -> DriverStatus:
        self._copies.copy_changed(handle)
        return self._look(handle).to_driver_status()

    def _look(self, handle: DriverHandle) -> PodStatus:
        """Return the state of the pod, or the last known one while the API server is away."""
        following, seen = self._logs.get(handle), self._seen.get(handle)
        if following and following.exit_code is not None:
            return PodStatus(Phase.ENDED, following.exit_code)
        age = time.monotonic() - seen.at if seen else 0.0
        if seen and (age < OBSERVE_SECONDS or seen.status.phase is Phase.ENDED):
            return seen.status
        try:
            pod = self._find(handle)
        except Unavailable:
            if seen and age < OUTAGE_SECONDS:
                return seen.status
            raise
        if pod is not None:
            status = describe_pod(pod, datetime.now(UTC), self._patience)
        else:
            status = PodStatus(Phase.ENDED, reason=DELETED) if seen else NO_PLACE
        if pod is not None or seen:
            self._seen[handle] = _Seen(status, time.monotonic())
        return status

    def cancel(self, handle: DriverHandle) -> None:
        pod = self._find(handle)
        if pod is not None and not is_idle(pod) and not self._release(pod, handle):
            name = pod["metadata"]["name"]
            remove_pod(self._cluster, name, lambda pod: has_attempt(pod, handle) and not is_idle(pod))
        self._end_log(handle)

    def _release(self, pod: dict[str, Any], handle: DriverHandle) -> bool:
        """Leave a pod whose execution has ended to others; return False where the pod has to be deleted."""
        if EXIT_CODE in pod["metadata"]["labels"]:  # nobody has taken it before its end
            return False
        following = self._logs.get(handle)
        if following is None:  # the run has ended
            following = self._open_log(handle)
            following.copy_once()
        code = following.exit_code
        return code is not None and self._idle.release(pod["metadata"]["name"], handle, code)

    def _end_log(self, handle: DriverHandle) -> None:
        if following := self._logs.pop(handle, None):
            following.finish(LAST_LINES_SECONDS)
        self._seen.pop(handle, None)
        self._names.pop(handle, None)
        self._copies.finish(handle)

    def open_messages(self, handle: DriverHandle) -> DriverMessages:
        path = self._message_path(handle)
        path.parent.mkdir(parents=True, exist_ok=True)
        return DriverMessages(path, self._derive_mark(handle))

    def read_logs(self, handle: DriverHandle, pod_type: PodType = "driver", tail: int = 100) -> Sequence[str]:
        return read_last_lines(self._log_path(handle), tail) if pod_type == "driver" else []

    def read_log_part(self, handle: DriverHandle, offset: int, size: int) -> bytes:
        return read_part(self._log_path(handle), offset, size)

    def list(self) -> Sequence[DriverHandle]:
        """Return the attempts that have a pod, also one that has ended: the sweeper deletes those by their label.

        A pod that waits for another execution belongs to no execution, and ends after its idle time.
        """
        labels = (pod["metadata"].get("labels", {}) for pod in self._pods.list() if not is_idle(pod))
        return [*filter(None, map(parse_handle, labels))]

    def _log_path(self, handle: DriverHandle) -> Path:
        return self._files.path(log_key(handle.organization_id, handle.execution_id, handle.attempt))

    def _message_path(self, handle: DriverHandle) -> Path:
        return self._log_path(handle).with_name("messages.jsonl")


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
