"""Compute on Kubernetes: the driver of an attempt is a pod, which outlives the Dagster run.

An execution waits for its turn (driver_queue.py) before its pod is created: pods that wait for a node have no order.

The pod's state is in the cluster, so any process can observe and stop it. The run's process copies the driver's log to
this machine (pod_log.py), and from there to the storage, as it does with any driver's log (log_copies.py).
"""

from __future__ import annotations

import secrets as random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from core.errors import Unavailable
from core.infra.cluster import Cluster, Refused
from core.infra.settings import Settings
from core.infra.storage import get_local_folder
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import log_key
from core.lifecycle.executions.pod_options import apply_pods
from driver.spec import ExecutionSpec
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.kubernetes.executors import build_executor_template, configure_spark
from orchestration.compute.kubernetes.pod_log import PodLog
from orchestration.compute.kubernetes.pod_watch import PodWatch
from orchestration.compute.kubernetes.pods import (
    EXECUTOR_TEMPLATE,
    MAX_SECRET_BYTES,
    SPEC_FILE,
    TERMINATION_SECONDS,
    build_pod,
    build_secret,
    name_pod,
    parse_handle,
    select_drivers,
)
from orchestration.compute.kubernetes.status import Phase, PodStatus, describe_pod
from orchestration.compute.log_copies import LogCopies, read_last_lines, read_part
from orchestration.compute.protocol import (
    DriverHandle,
    DriverStatus,
    Launch,
    LaunchFailed,
    PodType,
    Source,
    Wait,
)
from pipelines.spark.cluster import has_executor_pods

if TYPE_CHECKING:
    from dagster import PipesMessageReader

OBSERVE_SECONDS = 0.5  # between two looks at one pod
OUTAGE_SECONDS = 120.0  # in which the last known state of a pod counts while the API server is away
LAUNCH_OUTAGE_SECONDS = 60.0
PAUSE_SECONDS = 0.5
QUEUE = "pods"
GONE_SECONDS = 10.0  # from the deletion of a pod to its end, before it is forced
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
        self._queue = DriverQueue(data, QUEUE, settings.kubernetes_drivers, self._count_working)
        self._files = LocalStorage(get_local_folder(settings))
        self._copies = LogCopies(settings, self._files)
        self._patience = timedelta(minutes=settings.kubernetes_pending_minutes)
        self._logs: dict[DriverHandle, PodLog] = {}
        self._marks: dict[DriverHandle, str] = {}
        self._seen: dict[DriverHandle, _Seen] = {}

    def launch(
        self,
        spec: ExecutionSpec,
        secrets: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        wait: Wait | None = None,
    ) -> Launch | None:
        handle, began = DriverHandle(spec.organization_id, spec.execution_id, spec.attempt), time.monotonic()
        wait = wait or _sleep
        variables = {**(environment or {}), **secrets}
        if not self._queue.serve(spec, lambda _: self._create(handle, spec, variables, wait) or None, wait):
            return None
        while True:
            status = self._look(handle)
            if status.phase is Phase.ENDED and status.exit_code is None:
                self.cancel(handle)
                raise LaunchFailed(status.reason or DELETED)
            if status.phase is not Phase.WAITS:
                break
            if not wait(PAUSE_SECONDS):
                self.cancel(handle)
                return None
        self.follow(handle)
        return Launch(handle, Source.NEW, name_pod(handle), time.monotonic() - began)

    def _count_working(self) -> int:
        """Return how many drivers have a pod that has not ended; 0 while the cluster does not say it."""
        try:
            states = [describe_pod(pod, datetime.now(UTC), self._patience) for pod in self._pods.list()]
        except Unavailable:  # the creation of a pod waits for the API server, and knows how long
            return 0
        return sum(each.phase is not Phase.ENDED for each in states)

    def _create(self, handle: DriverHandle, spec: ExecutionSpec, variables: Mapping[str, str], wait: Wait) -> bool:
        """Create the pod and its Secret, again while the API server is away; False when nobody wants them any more."""
        settings = apply_pods(self._settings, spec.pods)
        files = {SPEC_FILE: configure_spark(settings, handle, spec).to_json()}
        if has_executor_pods(settings.spark_master):
            files[EXECUTOR_TEMPLATE] = build_executor_template(settings, handle)
        size = sum(len(each.encode()) for each in (*files.values(), *variables.values()))
        if size > MAX_SECRET_BYTES:
            raise LaunchFailed(
                f"The execution's specification has {size:,} bytes; a Secret of Kubernetes takes {MAX_SECRET_BYTES:,}."
            )
        manifest = build_pod(settings, handle, variables, files, EXECUTOR_TEMPLATE in files)
        deadline = time.monotonic() + LAUNCH_OUTAGE_SECONDS
        while True:
            try:
                pod = self._cluster.create_pod(manifest)
                uid = pod["metadata"]["uid"]
                self._cluster.create_secret(build_secret(self._settings, handle, uid, {**files, **variables}))
            except Refused as error:
                self._cluster.delete_pod(name_pod(handle), 0)
                raise LaunchFailed(error.sentence) from error
            except Unavailable as error:
                if time.monotonic() > deadline:
                    raise LaunchFailed(f"The driver's pod was not created: {error.sentence}") from error
                if not wait(PAUSE_SECONDS):
                    return False
            else:
                self._pods.await_pod(name_pod(handle))
                return True

    def follow(self, handle: DriverHandle) -> None:
        if handle not in self._logs:
            self._logs[handle] = self._open_log(handle)
            self._logs[handle].start()

    def _open_log(self, handle: DriverHandle) -> PodLog:
        path, messages = self._log_path(handle), self._message_path(handle)
        return PodLog(self._cluster, name_pod(handle), path, messages, self._marks.get(handle))

    def observe(self, handle: DriverHandle) -> DriverStatus:
        self._copies.copy_changed(handle)
        return self._look(handle).to_driver_status()

    def _look(self, handle: DriverHandle) -> PodStatus:
        """Return the state of the pod, or the last known one while the API server is away."""
        seen = self._seen.get(handle)
        age = time.monotonic() - seen.at if seen else 0.0
        if seen and (age < OBSERVE_SECONDS or seen.status.phase is Phase.ENDED):
            return seen.status
        try:
            pod = self._pods.find(name_pod(handle))
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
        name, following = name_pod(handle), self._logs.get(handle)
        if self._pods.find(name) is None:
            self._end_log(handle)
            return
        if following is None:  # the run has ended
            self._open_log(handle).copy_once()
        self._cluster.delete_pod(name, TERMINATION_SECONDS)
        deadline = time.monotonic() + GONE_SECONDS
        while self._pods.find(name) is not None:
            if time.monotonic() > deadline:  # its node does not answer
                self._cluster.delete_pod(name, 0)
                break
            time.sleep(PAUSE_SECONDS / 2)
        self._end_log(handle)

    def _end_log(self, handle: DriverHandle) -> None:
        if following := self._logs.pop(handle, None):
            following.finish(LAST_LINES_SECONDS)
        self._seen.pop(handle, None)
        self._copies.finish(handle)

    def create_message_reader(self, handle: DriverHandle) -> PipesMessageReader:
        from orchestration.compute.kubernetes.messages import MarkedMessageReader

        path = self._message_path(handle)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._marks[handle] = random.token_hex()
        return MarkedMessageReader(str(path), self._marks[handle])

    def read_logs(self, handle: DriverHandle, pod_type: PodType = "driver", tail: int = 100) -> Sequence[str]:
        return read_last_lines(self._log_path(handle), tail) if pod_type == "driver" else []

    def read_log_part(self, handle: DriverHandle, offset: int, size: int) -> bytes:
        return read_part(self._log_path(handle), offset, size)

    def list(self) -> Sequence[DriverHandle]:
        """Return the attempts that have a pod, also one that has ended: the sweeper deletes those by their label."""
        return [*filter(None, (parse_handle(pod["metadata"].get("labels", {})) for pod in self._pods.list()))]

    def _log_path(self, handle: DriverHandle) -> Path:
        return self._files.path(log_key(*_key(handle)))

    def _message_path(self, handle: DriverHandle) -> Path:
        return self._log_path(handle).with_name("messages.jsonl")


def _key(handle: DriverHandle) -> tuple[str, str, int]:
    return handle.organization_id, handle.execution_id, handle.attempt


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
