"""The API server of a cluster, as core.infra.cluster.Cluster shows it, in memory: a pod runs until a test ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from queue import SimpleQueue
from typing import Any

from core.infra.cluster import PodList, Refused
from core.infra.settings import Settings
from orchestration.compute.protocol import LaunchFailed

Pod = dict[str, Any]


class FakeStream:
    """An answer that is read once."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        yield self._content

    def close(self) -> None: ...


class FakeCluster:
    """Pods with versions, and a watch of one reader; `created` are the executions of pods in their order."""

    def __init__(self, _settings: Settings) -> None:
        self.pods: dict[str, Pod] = {}
        self.created: list[str] = []
        self.changes = SimpleQueue[tuple[str, Pod] | None]()
        self.logs: dict[str, str] = {}
        self.most = 0
        self.quota: int | None = None
        self.new_status: Pod = {"phase": "Running", "podIP": "127.0.0.1"}
        self._versions = count(1)
        self._guard = threading.Lock()

    def create_pod(self, manifest: Pod) -> Pod:
        metadata = {**manifest["metadata"], "uid": "uid"}
        if metadata["labels"]["spindle/organization"] == "refused":
            raise LaunchFailed("The cluster does not want it.")
        if self.quota is not None and len(self.pods) >= self.quota:
            raise Refused("The cluster refuses the driver's pod: exceeded quota: few.")
        pod = {**manifest, "metadata": metadata, "status": self.new_status}
        self._put(pod)
        self.most = max(self.most, sum(each["status"]["phase"] == "Running" for each in self.pods.values()))
        self.created.append(metadata["labels"]["spindle/execution"])  # last: a test ends the pod then
        return pod

    def create_secret(self, manifest: Pod) -> None:
        """Needed by a driver, and here there is none."""

    def find_pod(self, name: str) -> Pod | None:
        return self.pods.get(name)

    def list_pods(self, selector: str) -> PodList:
        wanted = dict(part.split("=") for part in selector.split(","))
        found = [pod for pod in [*self.pods.values()] if wanted.items() <= pod["metadata"]["labels"].items()]
        return PodList(found, "1")

    def watch_pods(self, _selector: str, _version: str, _seconds: int) -> Iterator[tuple[str, Pod]]:
        while change := self.changes.get():
            yield change

    def set_labels(self, pod: Pod, labels: dict[str, str | None]) -> Pod | None:
        with self._guard:
            now = self.pods.get(pod["metadata"]["name"])
            if now is None or not _is_same(now, pod["metadata"]["resourceVersion"]):
                return None
            merged = {**now["metadata"]["labels"], **labels}
            kept = {name: value for name, value in merged.items() if value is not None}
            return self._put({**now, "metadata": {**now["metadata"], "labels": kept}})

    def delete_pod(self, name: str, _grace_seconds: int, version: str | None = None) -> bool:
        with self._guard:
            pod = self.pods.get(name)
            if pod is None or (version and not _is_same(pod, version)):
                return pod is None
            del self.pods[name]
            self.changes.put(("DELETED", pod))
            return True

    def open_log(self, name: str, **_options: Any) -> FakeStream:
        return FakeStream(self.logs.get(name, "").encode())

    def end_pods(self) -> None:
        for name in [*self.pods]:
            self.change_status(name, {"phase": "Succeeded"})

    def change_status(self, name: str, status: Pod) -> None:
        self._put({**self.pods[name], "status": {**self.pods[name]["status"], **status}})

    def _put(self, pod: Pod) -> Pod:
        pod["metadata"] = {**pod["metadata"], "resourceVersion": str(next(self._versions))}
        self.pods[pod["metadata"]["name"]] = pod
        self.changes.put(("MODIFIED", pod))
        return pod


def _is_same(pod: Pod, version: str) -> bool:
    return pod["metadata"]["resourceVersion"] == version
