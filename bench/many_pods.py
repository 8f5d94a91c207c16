"""A thousand drivers' pods in one namespace: `python -m bench.many_pods [PODS]`.

On the cluster of KUBECONFIG, as for tests/cluster. The pods are on a node that exists in the API server alone: another
process says that they run, as its kubelet would. What is real are the API server, its scheduler and collector, and the
service's side: pods and Secrets made at its rate of requests, and its one watch of all pods.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import kubernetes
import psutil

from bench.service import describe_machine
from core.infra.cluster import Cluster
from core.infra.settings import Settings
from driver.host_folder import SPEC_FILE
from orchestration.compute.kubernetes.pod_watch import PodWatch
from orchestration.compute.kubernetes.pods import build_pod, build_secret, label_attempt, name_pod, select_drivers
from orchestration.compute.protocol import DriverHandle
from tests.support.cluster import KubernetesCluster, open_cluster

PODS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
NODE = "spindle-bench"  # its name, its label and its taint
SPEC_BYTES = 4_000
LAUNCHERS = 16  # threads in the place of the runs' processes
LOOK_SECONDS = 0.2
LEASE_SECONDS = 10.0
MAX_SECONDS = 180.0
REQUESTS_PER_SECOND = (50, 500)
MEMORY = re.compile(r"^process_resident_memory_bytes (\S+)", re.MULTILINE)


def main() -> None:
    print(describe_machine())
    with TemporaryDirectory() as data, open_cluster() as cluster, open_node(cluster):
        for rate in REQUESTS_PER_SECOND:
            measure(cluster, rate, Path(data) / str(rate))


def measure(cluster: KubernetesCluster, rate: int, data: Path) -> None:
    settings = Settings(
        data=data,
        storage="s3://bench/none",  # neither is ever asked
        public_url="http://none.invalid",
        compute="kubernetes",
        kubernetes_namespace=cluster.namespace,
        kubernetes_image=cluster.image,
        kubernetes_service_account="spindle-driver",
        kubernetes_driver_cpu="100m",
        kubernetes_driver_memory="512Mi",
        kubernetes_node_selector=((NODE, "yes"),),
        kubernetes_tolerations=(NODE,),
        kubernetes_requests_per_second=rate,
    )
    access = Cluster(settings)
    watch = PodWatch(access, data / "pods", select_drivers(settings))
    watch.list()
    handles = [DriverHandle("bench", f"many-{number}", 1) for number in range(PODS)]
    memory, cpu, began = read_memory(cluster), psutil.Process().cpu_times(), time.monotonic()
    with ThreadPoolExecutor(LAUNCHERS) as launchers:
        launches = [launchers.submit(create, access, settings, each) for each in handles]
        running = wait_for(lambda: count_running(watch) == PODS, began)
    for each in launches:
        each.result()
    used = psutil.Process().cpu_times()
    seconds = used.user + used.system - cpu.user - cpu.system
    print(f"{PODS} pods with Secrets, at most {rate} requests a second")
    print(f"  all run after                 {running:>8.1f} s")
    print(f"  CPU of creation and watch     {seconds:>8.1f} s")
    print(f"  memory of the API server      {(read_memory(cluster) - memory) / 2**20:>+8.0f} MiB")
    print(f"  one pod found after           {measure_call(partial(find, watch), handles):>8.2f} ms")
    print(f"  all pods listed after         {measure_call(lambda _: watch.list(), handles[:20]):>8.1f} ms")
    began = time.monotonic()
    with ThreadPoolExecutor(LAUNCHERS) as sweepers:
        for each in handles:
            sweepers.submit(access.delete_pod, name_pod(each), 0)
    print(f"  all deleted after             {wait_for(lambda: not watch.list(), began):>8.1f} s")
    print(f"  their Secrets collected after {wait_for(lambda: not cluster.list_secrets(), began):>8.1f} s", flush=True)


def create(access: Cluster, settings: Settings, handle: DriverHandle) -> None:
    pod = access.create_pod(build_pod(settings, handle, (), [SPEC_FILE]))
    access.create_secret(build_secret(settings, handle, pod["metadata"]["uid"], {SPEC_FILE: "x" * SPEC_BYTES}))


def find(watch: PodWatch, handle: DriverHandle) -> None:
    assert watch.find(name_pod(handle), label_attempt(handle))


def count_running(watch: PodWatch) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in watch.list())


def wait_for(is_done: Callable[[], bool], began: float) -> float:
    """Return the seconds since `began` until the condition holds."""
    while not is_done():
        if time.monotonic() - began > MAX_SECONDS:
            raise SystemExit("the pods did not change in time")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began


def measure_call(call: Callable[[DriverHandle], object], handles: list[DriverHandle]) -> float:
    """Return the median of the milliseconds that a call takes."""

    def measure(handle: DriverHandle) -> float:
        began = time.perf_counter()
        call(handle)
        return time.perf_counter() - began

    return median(map(measure, handles)) * 1_000


def read_memory(cluster: KubernetesCluster) -> float:
    """Return the resident memory of the API server in bytes."""
    found = MEMORY.search(cluster.read("/metrics"))
    return float(found[1]) if found else 0.0


@contextmanager
def open_node(cluster: KubernetesCluster) -> Generator[None]:
    """Have a node on which pods seem to run."""
    amounts = {"cpu": "10000", "memory": "10Ti", "pods": str(2 * PODS), "ephemeral-storage": "10Ti"}
    cluster.core.create_node(
        {
            "metadata": {"name": NODE, "labels": {NODE: "yes"}},
            "spec": {"taints": [{"key": NODE, "effect": "NoSchedule"}]},
        }
    )
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": format_now(), "reason": "Bench"}
    cluster.core.patch_node_status(
        NODE, {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition]}}
    )
    spawn = multiprocessing.get_context("spawn")
    ends = spawn.Event()
    kubelet = spawn.Process(target=run_kubelet, args=(cluster.config, cluster.namespace, ends))
    kubelet.start()
    try:
        yield
    finally:
        ends.set()
        kubelet.join()
        cluster.core.delete_node(NODE)


def run_kubelet(config: str, namespace: str, ends: Event) -> None:
    """Say of each pod of the node that it runs, and of the node that it is there."""
    api = kubernetes.config.new_client_from_config(config)
    core: Any = kubernetes.client.CoreV1Api(api)
    leases: Any = kubernetes.client.CoordinationV1Api(api)
    lease = {"metadata": {"name": NODE}, "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40}}
    leases.create_namespaced_lease("kube-node-lease", lease)
    running, next_lease = set[str](), 0.0
    while not ends.is_set():
        if time.monotonic() > next_lease:
            next_lease = time.monotonic() + LEASE_SECONDS
            leases.patch_namespaced_lease(NODE, "kube-node-lease", {"spec": {"renewTime": format_now()}})
        selector = f"spec.nodeName={NODE},status.phase=Pending"
        for pod in core.list_namespaced_pod(namespace, field_selector=selector).items:
            if pod.metadata.uid not in running:
                running.add(pod.metadata.uid)
                state = {"name": "driver", "ready": True, "restartCount": 0, "image": "", "imageID": ""}
                states = [{**state, "state": {"running": {"startedAt": format_now()}}}]
                status = {"status": {"phase": "Running", "containerStatuses": states}}
                core.patch_namespaced_pod_status(pod.metadata.name, namespace, status)
        time.sleep(LOOK_SECONDS)
    leases.delete_namespaced_lease(NODE, "kube-node-lease")


def format_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


if __name__ == "__main__":
    main()
