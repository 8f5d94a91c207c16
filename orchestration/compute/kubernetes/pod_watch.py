"""The states of the drivers' pods of an installation, which all its processes have from one watch.

A process that needs a state waits for a lock in the background. The one that has it watches the pods and writes each
change to a file of DATA/pods; the others read the files. When it ends, the next one continues.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError

from core.errors import Unavailable
from core.infra.background import OutageLog
from core.infra.cluster import Cluster, Expired, Refused

WATCH_SECONDS = 30  # after which the API server ends a watch, which shows that it is there
FRESH_SECONDS = 45.0  # from a sign of the API server, in which the files count
IDLE_SECONDS = 60.0  # without a question, after which a process leaves the watch to another one
RETRY_SECONDS = 1.0
AWAIT_SECONDS = 1.0
SYNCED, LOCK, SUFFIX = "synced", "lock", ".json"

Pod = dict[str, Any]
Labels = Mapping[str, str]


class PodWatch:
    """Finds pods in the files of the watch; those that the files lack are requested from the cluster."""

    def __init__(self, cluster: Cluster, folder: Path, selector: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._selector = selector
        self._asked_at = 0.0
        self._version: str | None = None
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def find(self, name: str, labels: Labels) -> Pod | None:
        """Return the pod with these labels, which probably has this name; None without one. Raises Unavailable."""
        self._begin()
        if self._is_fresh() and (pod := self._find_file(name, labels)) is not None:
            return pod
        selector = ",".join((self._selector, *(f"{name}={value}" for name, value in labels.items())))
        return next(iter(self._cluster.list_pods(selector).pods), None)

    def _find_file(self, name: str, labels: Labels) -> Pod | None:
        pod = _read(self._folder / f"{name}{SUFFIX}")
        if pod is not None and _has_labels(pod, labels):
            return pod
        others = filter(None, map(_read, self._folder.glob(f"*{SUFFIX}")))
        return next((pod for pod in others if _has_labels(pod, labels)), None)

    def list(self) -> Sequence[Pod]:
        """Return all pods, those of the last seconds perhaps not yet. Raises Unavailable."""
        self._begin()
        if self._is_fresh():
            return [*filter(None, map(_read, self._folder.glob(f"*{SUFFIX}")))]
        return self._cluster.list_pods(self._selector).pods

    def await_change(self, name: str, labels: Labels) -> None:
        """Wait until the list has a pod with the labels that it was just given, or for a second."""
        deadline = time.monotonic() + AWAIT_SECONDS
        while self._is_fresh() and time.monotonic() < deadline:
            pod = _read(self._folder / f"{name}{SUFFIX}")
            if pod is not None and _has_labels(pod, labels):
                return
            time.sleep(AWAIT_SECONDS / 50)

    def _begin(self) -> None:
        self._asked_at = time.monotonic()
        with self._guard:
            if self._thread is None or not self._thread.is_alive():
                self._folder.mkdir(parents=True, exist_ok=True)
                self._thread = threading.Thread(target=self._watch_in_turn, name="watch of pods", daemon=True)
                self._thread.start()

    def _is_fresh(self) -> bool:
        with suppress(FileNotFoundError):
            return 0 <= time.time() - (self._folder / SYNCED).stat().st_mtime < FRESH_SECONDS
        return False

    def _is_idle(self) -> bool:
        return time.monotonic() - self._asked_at > IDLE_SECONDS

    def _watch_in_turn(self) -> None:
        descriptor, outages = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600), OutageLog()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the process that watches has ended
            self._version = None
            while not self._is_idle():
                if not outages.run_step(self._watch):
                    time.sleep(RETRY_SECONDS)
        finally:
            os.close(descriptor)

    def _watch(self) -> None:
        """Write all changes until the watch ends. Raises Unavailable."""
        try:
            if self._version is None:
                self._version = self._write_all()
            for kind, pod in self._cluster.watch_pods(self._selector, self._version, WATCH_SECONDS):
                if kind == "DELETED":
                    self._get_path(pod).unlink(missing_ok=True)
                elif kind != "BOOKMARK":
                    self._write(pod)
                self._version = pod["metadata"]["resourceVersion"]
                (self._folder / SYNCED).touch()
            (self._folder / SYNCED).touch()
        except Expired:  # the oldest version that the API server remembers is later
            self._version = None
        except Refused as error:
            raise Unavailable(error.sentence) from error
        except HTTPError as error:
            raise Unavailable(f"The watch of the pods was interrupted: {type(error).__name__}.") from error

    def _write_all(self) -> str:
        """Write the pods that there are, delete the files of others; return the version to watch from."""
        found = self._cluster.list_pods(self._selector)
        for pod in found.pods:
            self._write(pod)
        names = {pod["metadata"]["name"] for pod in found.pods}
        for path in self._folder.glob(f"*{SUFFIX}"):
            if path.name.removesuffix(SUFFIX) not in names:
                path.unlink()
        (self._folder / SYNCED).touch()
        return found.version

    def _write(self, pod: Pod) -> None:
        path, metadata = self._get_path(pod), pod["metadata"]
        known = {name: metadata[name] for name in ("name", "labels", "deletionTimestamp") if name in metadata}
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps({"metadata": known, "status": pod.get("status", {})}))
        temporary.replace(path)

    def _get_path(self, pod: Pod) -> Path:
        return self._folder / f"{pod['metadata']['name']}{SUFFIX}"


def _read(path: Path) -> Pod | None:
    with suppress(FileNotFoundError):
        return json.loads(path.read_text())
    return None


def _has_labels(pod: Pod, labels: Labels) -> bool:
    return labels.items() <= pod["metadata"].get("labels", {}).items()
