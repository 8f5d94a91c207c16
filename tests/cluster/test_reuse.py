"""Pods that serve executions of an organization one after another, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.infra.pods import EXIT_CODE
from orchestration.compute.protocol import Compute, DriverHandle, DriverSource, Launch
from pipelines.contract.request import RunRequest, SparkSpec
from tests.cluster.conftest import ComputeFactory, MakeSpec
from tests.cluster.test_service import CRAWL as CRAWL_LINKS
from tests.cluster.test_service import check_spark_page
from tests.support.cluster import KubernetesCluster
from tests.support.libraries import needs_libraries
from tests.support.s3 import Bucket
from tests.support.service import PATIENCE_SECONDS, Service, free_port, wait_until
from tests.support.site import GatedSite, Site

pytestmark = pytest.mark.long

EXECUTIONS = 10  # of a driver
START_SPARK_SECONDS = 300  # on busy cores
CANARY = "canary-4b1d6f0e"
SPARK = SparkSpec(master="local[1]", conf={"spark.driver.memory": "512m"}, libraries=("s3",))


@pytest.fixture
def compute(create: ComputeFactory, cluster: KubernetesCluster) -> Iterator[Compute]:
    yield create(driver_executions=EXECUTIONS)
    for pod in cluster.list_pods():  # those that wait, too
        cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace, grace_period_seconds=0)
    wait_until(lambda: not cluster.list_pods(), PATIENCE_SECONDS)


def begin_with_spark(spec: RunRequest) -> RunRequest:
    return spec.model_copy(update={"begins_with_spark": True, "spark": SPARK})


def launch(compute: Compute, spec: RunRequest, secrets: dict[str, str]) -> Launch:
    launched = compute.launch(spec, secrets)
    assert launched
    return launched


def finish(compute: Compute, handle: DriverHandle) -> None:
    """Wait for the end of an execution, and let its driver go as a run does."""
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    assert compute.observe(handle).exit_code == 0, compute.read_logs(handle)
    compute.cancel(handle)


@pytest.mark.parametrize("has_spark", [False, True])
def test_the_second_execution_starts_at_once(
    compute: Compute,
    make_spec: MakeSpec,
    secrets: dict[str, str],
    cluster: KubernetesCluster,
    bucket: Bucket,
    site: GatedSite,
    has_spark: bool,
) -> None:
    site.open()
    specs = [make_spec(f"{name}-{has_spark}".lower()) for name in ("first", "second", "third")]
    specs = [*map(begin_with_spark, specs)] if has_spark else specs
    first = launch(compute, specs[0], secrets)
    finish(compute, first.handle)
    (pod,) = cluster.list_pods()
    second = launch(compute, specs[1], {**secrets, "CANARY": CANARY})
    finish(compute, second.handle)
    assert (first.source, second.source) == (DriverSource.NEW, DriverSource.WARM)
    assert second.driver == first.driver == pod.metadata.name
    other = specs[2].model_copy(update={"organization_id": "another"})
    third = launch(compute, other, secrets)
    assert third.source is DriverSource.NEW
    finish(compute, third.handle)
    for each in (first, second):
        log = bucket.get(f"organization/executions/{each.handle.execution_id}/1/driver.log").decode()
        assert log.count("completed") == 1
        assert "spindle_execution" not in log
    shown = {**cluster.dump(), **{name: cluster.read_log(name) for name in (first.driver, third.driver)}}
    for kind, text in shown.items():
        assert CANARY not in text, kind
        assert bucket.secret_key not in text, kind
    assert CANARY not in "".join(str(each.data) for each in cluster.list_secrets())


def test_a_cancel_of_the_second_ends_its_pod(
    compute: Compute,
    create: ComputeFactory,
    make_spec: MakeSpec,
    secrets: dict[str, str],
    cluster: KubernetesCluster,
    site: GatedSite,
) -> None:
    site.open()
    first = launch(compute, make_spec("before"), secrets)
    finish(compute, first.handle)
    site.close()
    second = launch(compute, make_spec("cancelled"), secrets)
    site.wait_for_visitor()
    sweeper = create(driver_executions=EXECUTIONS)
    sweeper.cancel(first.handle)  # it is over, and has no pod any more
    assert compute.observe(second.handle).running
    assert list(sweeper.list()) == [second.handle]
    sweeper.cancel(second.handle)
    assert not cluster.list_pods()
    wait_until(lambda: not compute.observe(second.handle).running, 5)


def test_a_pod_that_is_lost_while_it_waits_is_replaced(
    compute: Compute, make_spec: MakeSpec, secrets: dict[str, str], cluster: KubernetesCluster, site: GatedSite
) -> None:
    site.open()
    first = launch(compute, make_spec("kept"), secrets)
    finish(compute, first.handle)
    cluster.core.delete_namespaced_pod(first.driver, cluster.namespace, grace_period_seconds=0)
    second = launch(compute, make_spec("follows"), secrets)
    assert second.source is DriverSource.NEW
    finish(compute, second.handle)


def test_a_pod_ends_when_nobody_has_an_execution_for_it(
    create: ComputeFactory, make_spec: MakeSpec, secrets: dict[str, str], cluster: KubernetesCluster, site: GatedSite
) -> None:
    site.open()
    compute = create(driver_executions=EXECUTIONS, driver_idle_minutes=0.01)
    first = launch(compute, make_spec("idle"), secrets)
    finish(compute, first.handle)
    wait_until(lambda: list(compute.list()) == [first.handle], PATIENCE_SECONDS)  # for the sweeper
    compute.cancel(first.handle)
    assert not cluster.list_pods()


@pytest.fixture
def service(cluster: KubernetesCluster, bucket: Bucket, tmp_path: Path) -> Iterator[Service]:
    port = free_port()
    environment = {
        **cluster.build_environment(bucket, port),
        "SPINDLE_KUBERNETES_INSTANCE": "reuse",
        "SPINDLE_DRIVER_EXECUTIONS": str(EXECUTIONS),
        "SPINDLE_ENGINE": "spark",
    }
    service = Service(tmp_path / "data", environment, port=port).start()
    yield service
    service.stop()
    for pod in cluster.list_pods():
        cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace, grace_period_seconds=0)


@needs_libraries
def test_runs_of_a_service_share_a_pod(service: Service, cluster: KubernetesCluster, web: Site) -> None:
    web.serve({"/": "<a href='/a'>a</a>", "/a": "<h1>Page a</h1>"})
    job = service.make_job(CRAWL_LINKS.format(url=cluster.expose(web.url)))
    first = service.complete(job, seconds=START_SPARK_SECONDS)
    wait_until(lambda: [pod for pod in cluster.list_pods() if EXIT_CODE in pod.metadata.labels], PATIENCE_SECONDS)
    web.hold(["/a"])
    second = service.execute(job)
    check_spark_page(service, cluster, job, second)
    (messages,) = service.data.rglob(f"{second}/1/messages.jsonl")
    assert messages.read_text().count('"method": "opened"') == 1
    web.hold(())
    assert service.wait(job, second)["status"] == "COMPLETED"
    records = [service.get(f"{job.path}/executions/{each}") for each in (first, second)]
    assert [each["driverSource"] for each in records] == ["new", "warm"]
    assert len({each["driver"] for each in records}) == 1
    for each in (first, second):
        log = f"{job.path}/executions/{each}/logs"
        wait_until(lambda log=log: "completed" in "".join(service.get(log)["logs"]), PATIENCE_SECONDS, every=1)
    wait_until(lambda: [run["status"] for run in service.runs(second)] == ["SUCCESS"], PATIENCE_SECONDS, every=1)
