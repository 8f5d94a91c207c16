"""Executions on a cluster get their pods in turn: organizations do not wait for all of another one's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from core.infra.cluster import PodList
from core.infra.settings import Settings
from driver.spec import ExecutionSpec, OutputSpec
from orchestration.compute.kubernetes import compute, pod_watch
from orchestration.compute.kubernetes.compute import KubernetesCompute
from orchestration.compute.protocol import Launch, LaunchFailed
from tests.support.service import wait_until

SECONDS = 20


class FakeCluster:
    """Runs every pod that is created, until the test ends it, and shows the changes to a watch."""

    def __init__(self, _settings: Settings) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.created: list[str] = []
        self.changes = SimpleQueue[dict[str, Any] | None]()
        self.most = 0

    def create_pod(self, manifest: dict[str, Any]) -> dict[str, Any]:
        metadata = {**manifest["metadata"], "uid": "uid", "resourceVersion": "1"}
        if metadata["labels"]["spindle/organization"] == "refused":
            raise LaunchFailed("The quota is used up.")
        self.pods[metadata["name"]] = {"metadata": metadata, "status": {"phase": "Running"}}
        self.most = max(self.most, sum(pod["status"]["phase"] == "Running" for pod in self.pods.values()))
        self.changes.put(self.pods[metadata["name"]])
        self.created.append(metadata["labels"]["spindle/execution"])  # last: the test ends the pod then
        return self.pods[metadata["name"]]

    def create_secret(self, manifest: dict[str, Any]) -> None:
        """Needed by the driver, and here there is none."""

    def find_pod(self, name: str) -> dict[str, Any] | None:
        return self.pods.get(name)

    def list_pods(self, _selector: str) -> PodList:
        return PodList([*self.pods.values()], "1")

    def watch_pods(self, _selector: str, _version: str, _seconds: int) -> Iterator[Any]:
        while pod := self.changes.get():
            yield "MODIFIED", pod

    def end_pods(self) -> None:
        for pod in [*self.pods.values()]:
            pod["status"] = {"phase": "Succeeded"}
            self.changes.put(pod)


def make_spec(number: int, organization: str, project: str = "project") -> ExecutionSpec:
    return ExecutionSpec(
        execution_id=f"{organization}-{project}-{number}",
        job_id="job",
        project_id=project,
        organization_id=organization,
        job_name="job",
        attempt=1,
        pipeline_yaml="pipeline: []",
        output=OutputSpec(path="s3://bucket/output"),
    )


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesCompute]:
    before = {*threading.enumerate()}
    monkeypatch.setattr(compute, "Cluster", FakeCluster)
    monkeypatch.setattr(KubernetesCompute, "follow", lambda *_: None)  # no pod has a log here
    settings = Settings(
        data=tmp_path,
        compute="kubernetes",
        storage="s3://bucket/prefix",
        kubernetes_image="spindle",
        public_url="http://spindle",
        kubernetes_drivers=1,
    )
    pods = KubernetesCompute(settings)
    yield pods
    monkeypatch.setattr(pod_watch, "IDLE_SECONDS", -1.0)
    cluster: Any = pods._cluster
    cluster.changes.put(None)
    for thread in {*threading.enumerate()} - before:
        thread.join(SECONDS)


def test_one_execution_does_not_wait_for_all_of_another_organization(pods: KubernetesCompute, tmp_path: Path) -> None:
    cluster: Any = pods._cluster
    assert pods.launch(make_spec(0, "a"), {})
    many = [make_spec(number, "a") for number in range(1, 6)]
    others = [make_spec(1, "a", "second"), make_spec(1, "b"), make_spec(1, "refused")]
    stopped = threading.Event()

    def launch(spec: ExecutionSpec) -> Launch | None:
        return pods.launch(spec, {}, None, lambda _seconds: not stopped.wait(0.01))

    with ThreadPoolExecutor(8) as pool:
        try:
            launches = [pool.submit(launch, spec) for spec in (*many, *others)]
            wait_until(lambda: len([*(tmp_path / "queue/pods").glob("*@*")]) == 8, SECONDS)
            for number in range(2, 8):
                cluster.end_pods()
                wait_until(lambda number=number: len(cluster.created) == number, SECONDS)
            assert cluster.created[1] == "b-project-1"
            assert cluster.created[2] == "a-second-1"
            with pytest.raises(LaunchFailed):
                launches[-1].result()
        finally:
            stopped.set()
    assert cluster.most == 1
