"""Pods that wait for another execution: who gets one, and what becomes of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.infra.pods import EXIT_CODE
from core.infra.settings import Settings
from driver.messages import MARK_VARIABLE, Boundary
from driver.transport import HostRequest
from orchestration.compute.kubernetes import idle_pods, pod_log
from orchestration.compute.kubernetes.compute import KubernetesCompute
from orchestration.compute.kubernetes.idle_pods import find_pool
from orchestration.compute.protocol import DriverHandle, DriverSource, LaunchFailed
from pipelines.contract.request import PodsSpec, RunRequest, SparkSpec
from tests.support.fake_cluster import FakeCluster
from tests.support.run_requests import make_request
from tests.support.service import PATIENCE_SECONDS, wait_until

Create = Callable[..., KubernetesCompute]


def make_spec(execution: str, organization: str = "organization") -> RunRequest:
    return make_request(execution, organization_id=organization)


def get_handle(spec: RunRequest) -> DriverHandle:
    return DriverHandle(spec.organization_id, spec.execution_id, spec.attempt)


class Drivers:
    """The drivers in the pods of a fake cluster: what they are given, and when they end it."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.given: list[tuple[str, HostRequest]] = []
        self.accept = True

    def send_execution(self, _settings: Settings, name: str, _host: str, request: HostRequest) -> bool:
        self.given.append((name, request))
        if self.accept:
            mark = request.environment[MARK_VARIABLE]
            self._cluster.logs[name] = f"{self._cluster.logs.get(name, '')}{Boundary().format(mark)}"
        return self.accept

    def end(self, compute: KubernetesCompute, handle: DriverHandle, name: str, exit_code: int = 0) -> None:
        """End the execution, whose run then lets the driver go."""
        mark = compute._derive_mark(handle)
        text = f"of {handle.execution_id}\n{Boundary(exit_code).format(mark)}of nobody\n"
        self._cluster.logs[name] = f"{self._cluster.logs.get(name, '')}{text}"
        if handle in compute._logs:
            wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
        compute.cancel(handle)


@pytest.fixture
def drivers(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Drivers:
    drivers = Drivers(cluster)
    monkeypatch.setattr(idle_pods, "send_execution", drivers.send_execution)
    monkeypatch.setattr(idle_pods, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(pod_log, "RETRY_SECONDS", 0.01)
    return drivers


def leave_idle(compute: KubernetesCompute, drivers: Drivers, spec: RunRequest) -> str:
    """Run an execution in a new pod; return the pod's name once all know that it waits for another one."""
    launched = compute.launch(spec, {})
    assert launched
    assert launched.source is DriverSource.NEW
    drivers.end(compute, get_handle(spec), launched.driver)
    wait_until(lambda: launched.driver in list_idle(compute), PATIENCE_SECONDS)
    return launched.driver


def list_idle(compute: KubernetesCompute) -> list[str]:
    found = [pod["metadata"] for pod in compute._pods.list()]
    return [each["name"] for each in found if EXIT_CODE in each["labels"]]


def test_a_pod_serves_the_next_execution(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute, other = create(), create()
    name = leave_idle(compute, drivers, make_spec("first"))
    assert cluster.pods[name]["metadata"]["labels"][EXIT_CODE] == "0"
    assert list(other.list()) == [], "the sweeper leaves it"
    assert other.observe(get_handle(make_spec("first"))).exit_code == 0

    second = make_spec("second")
    launched = other.launch(second, {"API_KEY": "canary"}, {"PIPES": "context"})
    assert launched
    assert (launched.source, launched.driver) == (DriverSource.WARM, name)
    ((_, request),) = drivers.given
    assert request.spec.execution_id == "second"
    assert {"API_KEY": "canary", "PIPES": "context"}.items() <= request.environment.items()
    assert list(compute.list()) == [get_handle(second)]
    assert compute.observe(get_handle(second)).running
    assert not create().observe(get_handle(make_spec("first"))).running
    drivers.end(other, get_handle(second), name, exit_code=1)
    assert create().observe(get_handle(second)).exit_code == 1
    assert [*cluster.pods] == [name]


def test_a_log_has_one_execution(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute = create()
    name = leave_idle(compute, drivers, make_spec("first"))
    compute.launch(make_spec("second"), {})
    drivers.end(compute, get_handle(make_spec("second")), name)
    for each in ("first", "second"):
        another = create()
        another._names[get_handle(make_spec(each))] = name
        another._open_log(get_handle(make_spec(each))).copy_once()
        assert another.read_logs(get_handle(make_spec(each))) == [f"of {each}"]


@pytest.mark.parametrize(
    "changes",
    [
        {"organization_id": "another"},
        {"spark": SparkSpec(conf={"spark.driver.memory": "4g"})},
        {"pods": PodsSpec(kubernetes_driver_memory="6Gi")},
        {"reuses_driver": False},
        {"credentials": {"API_KEY": "0190"}},
        {"plugins": ("/plugins/one",)},
    ],
)
def test_others_get_a_pod_of_their_own(
    create: Create, cluster: FakeCluster, drivers: Drivers, changes: dict[str, object]
) -> None:
    compute = create()
    name = leave_idle(compute, drivers, make_spec("first"))
    launched = compute.launch(make_spec("second").model_copy(update=changes), {})
    assert launched
    assert (launched.source, launched.driver == name) == (DriverSource.NEW, False)
    assert not drivers.given


def test_pods_with_executors_serve_one_execution(settings: Settings) -> None:
    spec, public = make_spec("first"), {"credentials": {"REGION": "0190"}, "public_variables": ("REGION",)}
    assert find_pool(settings, spec) == find_pool(settings, make_spec("second"))
    assert find_pool(settings, spec.model_copy(update=public)) == find_pool(settings, spec)
    on_cluster = settings.replace(spark_master="k8s://https://kubernetes.default.svc:443")
    assert find_pool(on_cluster, spec) is None
    assert find_pool(settings.replace(kubernetes_image="newer"), spec) != find_pool(settings, spec)


def test_one_of_many_claims_a_pod(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    name, computes = leave_idle(create(), drivers, make_spec("first")), [create() for _ in range(4)]
    start = threading.Barrier(len(computes))

    def launch(number: int) -> str | None:
        start.wait()
        launched = computes[number].launch(make_spec(f"next-{number}"), {})
        return launched and launched.driver

    with ThreadPoolExecutor(len(computes)) as pool:
        names = [*pool.map(launch, range(len(computes)))]
    assert len({*names}) == len(computes)
    assert name in names


def test_a_cancel_ends_its_own_execution_alone(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute = create()
    name = leave_idle(compute, drivers, make_spec("first"))
    second = get_handle(make_spec("second"))
    compute.launch(make_spec("second"), {})
    for each in (compute, create()):
        each.cancel(get_handle(make_spec("first")))
    assert compute.observe(second).running
    create().cancel(second)  # from another process, amid the execution
    assert name not in cluster.pods


def test_a_late_cancel_leaves_the_next_execution(
    create: Create, cluster: FakeCluster, drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, canceller, first = create(), create(), get_handle(make_spec("first"))
    launched = compute.launch(make_spec("first"), {})
    assert launched
    release = canceller._release

    def release_late(pod: dict[str, object], handle: DriverHandle) -> bool:
        """Answer that the execution runs, after which it ends and another one begins."""
        answer = release(pod, handle)
        drivers.end(compute, first, launched.driver)
        wait_until(lambda: launched.driver in list_idle(compute), PATIENCE_SECONDS)
        assert compute.launch(make_spec("second"), {})
        return answer

    monkeypatch.setattr(canceller, "_release", release_late)
    canceller.cancel(first)
    assert [*cluster.pods] == [launched.driver]
    assert compute.observe(get_handle(make_spec("second"))).running


def test_a_driver_that_does_not_answer_is_replaced(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute = create()
    name = leave_idle(compute, drivers, make_spec("first"))
    drivers.accept = False
    launched = compute.launch(make_spec("second"), {})
    assert launched
    assert launched.source is DriverSource.NEW
    assert name not in cluster.pods
    assert compute.observe(get_handle(make_spec("second"))).running


def test_an_idle_pod_that_ends_is_swept(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute, first = create(), make_spec("first")
    name = leave_idle(compute, drivers, first)
    cluster.change_status(name, {"phase": "Succeeded"})
    sweeper = create()
    wait_until(lambda: list(sweeper.list()) == [get_handle(first)], PATIENCE_SECONDS)
    sweeper.cancel(get_handle(first))
    assert not cluster.pods


def test_idle_pods_make_room(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute = create(kubernetes_drivers=1)
    name = leave_idle(compute, drivers, make_spec("first"))
    assert compute.launch(make_spec("second", "another"), {}), "it does not count as working"
    assert name not in cluster.pods
    assert cluster.most == 1


def test_idle_pods_make_room_in_a_quota(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute, cluster.quota = create(), 1
    name = leave_idle(compute, drivers, make_spec("first"))
    assert compute.launch(make_spec("second", "another"), {})
    assert name not in cluster.pods
    with pytest.raises(LaunchFailed, match="exceeded quota"):
        compute.launch(make_spec("third"), {})


def test_idle_pods_make_room_on_a_node(create: Create, cluster: FakeCluster, drivers: Drivers) -> None:
    compute = create()
    name, kept = (leave_idle(compute, drivers, make_spec(each, each)) for each in ("first", "last"))
    cluster.new_status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    waiting = "spindle-second-1"

    def place(_seconds: float) -> bool:
        if name not in cluster.pods and cluster.pods[waiting]["status"]["phase"] == "Pending":
            cluster.change_status(waiting, {"phase": "Running"})
        return True

    assert compute.launch(make_spec("second", "another"), {}, wait=place)
    assert sorted(cluster.pods) == [kept, waiting], "no more than it needs"
