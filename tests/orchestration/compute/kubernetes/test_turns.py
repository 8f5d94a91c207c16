"""Executions on a cluster get their pods in turn: organizations do not wait for all of another one's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestration.compute.kubernetes.compute import KubernetesCompute
from orchestration.compute.protocol import Launch, LaunchFailed
from pipelines.contract.request import RunRequest
from tests.support.fake_cluster import FakeCluster
from tests.support.run_requests import make_request
from tests.support.service import PATIENCE_SECONDS, wait_until


def make_spec(number: int, organization: str, project: str = "project") -> RunRequest:
    name = f"{organization}-{project}-{number}"
    return make_request(name, organization_id=organization, project_id=project)


def test_one_execution_does_not_wait_for_all_of_another_organization(
    create: Callable[..., KubernetesCompute], cluster: FakeCluster
) -> None:
    pods = create(kubernetes_drivers=1)
    assert pods.launch(make_spec(0, "a"), {})
    many = [make_spec(number, "a") for number in range(1, 6)]
    others = [make_spec(1, "a", "second"), make_spec(1, "b"), make_spec(1, "refused")]
    stopped = threading.Event()

    def launch(spec: RunRequest) -> Launch | None:
        return pods.launch(spec, {}, None, lambda _seconds: not stopped.wait(0.01))

    with ThreadPoolExecutor(8) as pool:
        try:
            launches = [pool.submit(launch, spec) for spec in (*many, *others)]
            wait_until(lambda: len(pods.queue.list_waiting(0)) == 8, PATIENCE_SECONDS)
            for number in range(2, 8):
                cluster.end_pods()
                wait_until(lambda number=number: len(cluster.created) == number, PATIENCE_SECONDS)
            assert cluster.created[1] == "b-project-1"
            assert cluster.created[2] == "a-second-1"
            with pytest.raises(LaunchFailed):
                launches[-1].result()
        finally:
            stopped.set()
    assert cluster.most == 1
