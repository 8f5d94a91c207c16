"""Executions whose cluster breaks under them: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from core.infra.settings import Settings
from orchestration.compute import create_compute
from orchestration.compute.kubernetes.pods import name_pod
from orchestration.compute.protocol import DriverHandle
from tests.support.cluster import KubernetesCluster
from tests.support.faulty_proxy import FaultyProxy
from tests.support.processes import list_processes_of_container
from tests.support.run_requests import make_request
from tests.support.s3 import Bucket
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, free_port, wait_until
from tests.support.site import Site, serve_site

pytestmark = pytest.mark.long

PAGES = {"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "<h1>one</h1>", "/2": "<h1>two</h1>"}
ROWS = [{"name": "one"}, {"name": "two"}]
CRAWL = """\
fetch: {{url: "{base}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}]}}
"""
SELECT = "SELECT name FROM dataset ORDER BY name"
CUT_REQUESTS = 10
GONE_SECONDS = 180  # the cluster's collector looks twice, with 40 s between
NODE = "spindle-test-node"


@pytest.fixture(scope="module")
def access(cluster: KubernetesCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyProxy]:
    """The way of the service to the API server, which can be cut."""
    path = tmp_path_factory.mktemp("access") / "config"
    with cluster.open_faulty_access(path) as proxy, pytest.MonkeyPatch.context() as patched:
        patched.setenv("KUBECONFIG", str(path))
        yield proxy


@pytest.fixture(scope="module")
def service(
    cluster: KubernetesCluster, bucket: Bucket, access: FaultyProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    port = free_port()
    data = tmp_path_factory.mktemp("service") / "data"
    service = Service(data, cluster.build_environment(bucket, port), port=port).start()
    yield service
    service.stop()


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.serve(PAGES)
        yield site


def make_job(service: Service, cluster: KubernetesCluster, site: Site) -> Job:
    job = service.make_job(CRAWL.format(base=cluster.expose(site.url)))
    with service.client() as client:
        assert client.put(job.path, json={"maxRetries": 1, "retryBackoffSeconds": 1}).is_success
    return job


def read_rows(service: Service, job: Job) -> Any:
    dataset = service.get(job.path)["outputDatasetId"]
    return service.post("/datasets/query", {"sql": SELECT, "datasetId": dataset})["results"]


def delete_by_force(cluster: KubernetesCluster, pod: Any) -> None:
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace, grace_period_seconds=0)


def kill(_cluster: KubernetesCluster, pod: Any) -> None:
    (status,) = pod.status.container_statuses
    processes = list_processes_of_container(status.container_id.partition("://")[2])
    if not processes:
        pytest.skip("the node is another machine")
    for pid in processes:
        with suppress(ProcessLookupError):  # it ended with its parent
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("end", [delete_by_force, kill])
def test_a_driver_that_is_lost_is_replaced(
    service: Service, cluster: KubernetesCluster, site: Site, end: Callable[[KubernetesCluster, Any], None]
) -> None:
    site.hold({"/2"})
    job = make_job(service, cluster, site)
    execution = service.execute(job)
    wait_until(lambda: site.requests["/2"], PATIENCE_SECONDS)
    (pod,) = cluster.list_pods()
    end(cluster, pod)
    attempts = f"{job.path}/executions/{execution}/attempts"
    wait_until(lambda: len(service.get(attempts)) == 2, PATIENCE_SECONDS, every=POLL_SECONDS)
    site.hold(())
    assert service.wait(job, execution)["status"] == "COMPLETED"
    first, second = service.get(attempts)
    assert (first["status"], first["errorCode"]) == ("FAILED", "driver-lost"), first
    assert second["status"] == "COMPLETED"
    assert read_rows(service, job) == ROWS
    wait_until(lambda: not cluster.list_pods() and not cluster.list_secrets(), PATIENCE_SECONDS)


def test_executions_go_on_while_the_api_server_is_away(
    service: Service, cluster: KubernetesCluster, site: Site, access: FaultyProxy
) -> None:
    site.hold({"/2"})
    job, other = make_job(service, cluster, site), make_job(service, cluster, site)
    execution = service.execute(job)
    wait_until(lambda: site.requests["/2"], PATIENCE_SECONDS)
    access.fail("cut")
    site.hold(())
    waiting = service.execute(other)
    assert service.wait(job, execution)["status"] == "COMPLETED"  # its report comes by the webhook
    assert read_rows(service, job) == ROWS
    wait_until(lambda: access.hits >= CUT_REQUESTS, PATIENCE_SECONDS)
    assert service.status(other, waiting)["status"] not in ("FAILED", "COMPLETED")
    access.fail(None)
    assert service.wait(other, waiting)["status"] == "COMPLETED"
    assert read_rows(service, other) == ROWS
    for each, number in ((job, execution), (other, waiting)):
        (attempt,) = service.get(f"{each.path}/executions/{number}/attempts")
        assert attempt["status"] == "COMPLETED"
    wait_until(lambda: not cluster.list_pods() and not cluster.list_secrets(), PATIENCE_SECONDS)


@pytest.fixture
def node(cluster: KubernetesCluster) -> Iterator[str]:
    """A node without a machine: the test says in its place what runs there. Pods of nobody else get to it."""
    body = {
        "metadata": {"name": NODE, "labels": {"spindle/test": NODE}},
        "spec": {"taints": [{"key": NODE, "effect": "NoSchedule"}]},
    }
    cluster.core.create_node(body)
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "a test says so"}
    cluster.core.patch_node_status(NODE, {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}})
    yield NODE
    with suppress(Exception):
        cluster.core.delete_node(NODE)


def test_a_node_that_is_deleted_ends_its_drivers(
    cluster: KubernetesCluster, bucket: Bucket, node: str, tmp_path: Path
) -> None:
    settings = {**cluster.build_settings(bucket), "data": tmp_path, "kubernetes_node_selector": f"spindle/test={node}"}
    settings["kubernetes_tolerations"] = f"{node},node.kubernetes.io/not-ready"
    compute = create_compute(Settings(**settings))
    handle = DriverHandle("organization", "stranded", 1)
    spec = make_request("stranded", output={"path": f"{bucket.address}/stranded"})

    def start_pod(_seconds: float) -> bool:
        """Say in the place of a kubelet that the pod runs, once it is on the node."""
        pod = cluster.core.read_namespaced_pod(name_pod(handle), cluster.namespace)
        if pod.spec.node_name == node and pod.status.phase == "Pending":
            cluster.core.patch_namespaced_pod_status(
                pod.metadata.name, cluster.namespace, {"status": {"phase": "Running"}}
            )
        return True

    assert compute.launch(spec, {}, wait=start_pod)
    assert compute.observe(handle).running
    cluster.core.delete_node(node)
    wait_until(lambda: not compute.observe(handle).running, GONE_SECONDS, every=1)
    assert "node" in (compute.observe(handle).reason or "")
    compute.cancel(handle)
    assert not cluster.list_pods()
