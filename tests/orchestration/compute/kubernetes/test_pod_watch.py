"""One watch of all pods for the processes of an installation."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from core.errors import Unavailable
from core.infra.cluster import Expired, PodList
from orchestration.compute.kubernetes import pod_watch
from orchestration.compute.kubernetes.pod_watch import PodWatch
from tests.support.service import PATIENCE_SECONDS, wait_until


class FakeCluster:
    """The pods of a cluster, the changes that a watch shows, and the requests by kind."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.changes = SimpleQueue[tuple[str, dict[str, Any]] | Exception | None]()
        self.requests = Counter[str]()
        self.version = 1

    def change(self, kind: str, name: str, phase: str) -> None:
        self.version += 1
        pod = {
            "metadata": {"name": name, "labels": {"name": name}, "resourceVersion": str(self.version)},
            "status": {"phase": phase},
        }
        self.pods.pop(name, None) if kind == "DELETED" else self.pods.update({name: pod})
        self.changes.put((kind, pod))

    def list_pods(self, selector: str) -> PodList:
        _, _, name = selector.partition(",name=")
        self.requests["find" if name else "list"] += 1
        found = (pod for pod in self.pods.values() if name in ("", pod["metadata"]["name"]))
        return PodList([*found], str(self.version))

    def watch_pods(self, _selector: str, _version: str, _seconds: int) -> Iterator[tuple[str, dict[str, Any]]]:
        self.requests["watch"] += 1
        while change := self.changes.get():
            if isinstance(change, Exception):
                raise change
            yield change


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    yield cluster
    cluster.changes.put(None)


@pytest.fixture
def create(cluster: FakeCluster, tmp_path: Path) -> Iterator[Callable[[], PodWatch]]:
    """Each call returns the watch of another process; all end with the test."""
    before = {*threading.enumerate()}

    yield lambda: PodWatch(cluster, tmp_path / "pods", "driver")  # pyright: ignore[reportArgumentType]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pod_watch, "IDLE_SECONDS", -1.0)
        for thread in {*threading.enumerate()} - before:
            cluster.changes.put(None)
            thread.join(PATIENCE_SECONDS)


def find_phase(watch: PodWatch, name: str) -> str | None:
    pod = watch.find(name, {"name": name})
    return pod["status"]["phase"] if pod else None


def test_processes_share_one_watch(cluster: FakeCluster, create: Callable[[], PodWatch]) -> None:
    cluster.pods = {"a": {"metadata": {"name": "a", "labels": {"name": "a"}}, "status": {"phase": "Pending"}}}
    first, second = create(), create()
    assert find_phase(first, "a") == "Pending"
    wait_until(lambda: cluster.requests["watch"], PATIENCE_SECONDS)
    asked = cluster.requests["find"]
    cluster.change("MODIFIED", "a", "Running")
    cluster.change("ADDED", "b", "Pending")
    wait_until(lambda: len(second.list()) == 2, PATIENCE_SECONDS)
    assert (find_phase(first, "a"), find_phase(second, "b")) == ("Running", "Pending")
    assert cluster.requests == Counter({"find": asked, "list": 1, "watch": 1})
    cluster.change("DELETED", "a", "Succeeded")
    wait_until(lambda: find_phase(second, "a") is None, PATIENCE_SECONDS)
    assert cluster.requests["find"] > asked  # the cluster itself says that a pod is gone


def test_another_process_goes_on_when_the_first_one_ends(
    cluster: FakeCluster, create: Callable[[], PodWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = create(), create()
    first.list()
    wait_until(lambda: cluster.requests["watch"] == 1, PATIENCE_SECONDS)
    second.list()
    monkeypatch.setattr(first, "_is_idle", lambda: True)
    cluster.changes.put(None)
    wait_until(lambda: cluster.requests["watch"] == 2, PATIENCE_SECONDS)
    cluster.change("ADDED", "a", "Running")
    wait_until(lambda: len(first.list()) == 1, PATIENCE_SECONDS)


@pytest.mark.parametrize(("error", "lists"), [(Expired("too old"), 2), (Unavailable("away"), 1)])
def test_a_watch_that_breaks_is_begun_again(
    cluster: FakeCluster, create: Callable[[], PodWatch], error: Exception, lists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_watch, "RETRY_SECONDS", 0.01)
    watch = create()
    watch.list()
    wait_until(lambda: cluster.requests["watch"] == 1, PATIENCE_SECONDS)
    asked = cluster.requests["list"]
    cluster.changes.put(error)
    wait_until(lambda: cluster.requests["watch"] == 2, PATIENCE_SECONDS)
    assert cluster.requests["list"] == asked + lists - 1
    cluster.change("ADDED", "a", "Running")
    wait_until(lambda: len(watch.list()) == 1, PATIENCE_SECONDS)


def test_files_that_nobody_writes_do_not_count(
    cluster: FakeCluster, create: Callable[[], PodWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = create()
    watch.list()
    wait_until(lambda: cluster.requests["watch"], PATIENCE_SECONDS)
    cluster.change("ADDED", "a", "Running")
    wait_until(lambda: len(watch.list()) == 1, PATIENCE_SECONDS)
    cluster.pods["a"]["status"] = {"phase": "Failed"}
    assert find_phase(watch, "a") == "Running"
    monkeypatch.setattr(pod_watch, "FRESH_SECONDS", 0.0)
    assert find_phase(watch, "a") == "Failed"
