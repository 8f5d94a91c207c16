"""Compute on a real cluster: the contract of Compute, and what ends a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import Unavailable
from orchestration.compute.protocol import DriverHandle, LaunchFailed
from pipelines.contract.request import PodsSpec
from tests.cluster.conftest import ComputeFactory, MakeSpec
from tests.support.cluster import KubernetesCluster
from tests.support.s3 import Bucket
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import GatedSite
from tests.support.spares import launch

pytestmark = pytest.mark.long

RIGHTS = Path(__file__).with_name("rights.txt")  # as `kubectl auth can-i --list` has them
OUTAGE_HITS = 3  # requests that nobody answers


def test_a_driver_runs_in_a_pod_and_leaves_its_log(
    create: ComputeFactory,
    make_spec: MakeSpec,
    secrets: dict[str, str],
    site: GatedSite,
    cluster: KubernetesCluster,
    bucket: Bucket,
) -> None:
    compute, other = create(), create()
    handle = launch(compute, make_spec("runs"), secrets)
    site.wait_for_visitor()
    assert other.observe(handle).running
    assert list(other.list()) == [handle]
    site.open()
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    assert compute.observe(handle).exit_code == other.observe(handle).exit_code == 0
    assert list(other.list()) == [handle]  # its pod is left, for whoever sweeps
    wait_until(lambda: "completed" in "".join(compute.read_logs(handle)[-1:]), PATIENCE_SECONDS)
    lines = compute.read_log_part(handle, 0, 2**20)
    compute.cancel(handle)
    assert list(other.list()) == []
    wait_until(lambda: not cluster.list_secrets(), PATIENCE_SECONDS)
    assert bucket.get("organization/executions/runs/1/driver.log") == lines


def test_any_instance_can_cancel_a_driver(
    create: ComputeFactory, make_spec: MakeSpec, secrets: dict[str, str], site: GatedSite, cluster: KubernetesCluster
) -> None:
    compute = create()
    handle = launch(compute, make_spec("cancelled"), secrets)
    site.wait_for_visitor()
    create().cancel(handle)
    assert not cluster.list_pods()
    wait_until(lambda: not compute.observe(handle).running, 5)
    compute.cancel(handle)
    unknown = DriverHandle("organization", "nobody", 1)
    assert not compute.observe(unknown).running
    compute.cancel(unknown)
    assert compute.read_logs(unknown) == []


def test_the_account_of_the_service_has_the_fewest_rights(cluster: KubernetesCluster) -> None:
    assert cluster.list_rights() == RIGHTS.read_text().splitlines()


def test_a_deleted_pod_is_noticed(
    create: ComputeFactory, make_spec: MakeSpec, secrets: dict[str, str], site: GatedSite, cluster: KubernetesCluster
) -> None:
    compute = create()
    handle = launch(compute, make_spec("deleted"), secrets)
    site.wait_for_visitor()
    (pod,) = cluster.list_pods()
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace, grace_period_seconds=0)
    wait_until(lambda: not compute.observe(handle).running, 60)
    assert "was deleted" in (compute.observe(handle).reason or "")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kubernetes_image": "nobody.invalid/nothing:1"}, "image nobody.invalid/nothing:1 cannot be pulled"),
        ({"kubernetes_driver_cpu": "1000", "kubernetes_pending_minutes": 0.05}, "No node of the cluster had room"),
        ({"kubernetes_service_account": "nobody"}, "The cluster refuses the driver's pod"),
    ],
)
def test_a_pod_that_cannot_start_says_why(
    create: ComputeFactory, make_spec: MakeSpec, changes: dict[str, Any], sentence: str, cluster: KubernetesCluster
) -> None:
    with pytest.raises(LaunchFailed, match=sentence):
        create(**changes).launch(make_spec("refused"), {})
    assert not cluster.list_pods()


def test_a_quota_is_named(create: ComputeFactory, make_spec: MakeSpec, cluster: KubernetesCluster) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    cluster.core.create_namespaced_resource_quota(cluster.namespace, quota)
    try:
        read = cluster.core.read_namespaced_resource_quota
        wait_until(lambda: read("none", cluster.namespace).status.hard, PATIENCE_SECONDS)
        with pytest.raises(LaunchFailed, match="exceeded quota: none"):
            create().launch(make_spec("limited"), {})
    finally:
        cluster.core.delete_namespaced_resource_quota("none", cluster.namespace)


def test_a_pod_without_memory_is_killed_with_a_sentence(create: ComputeFactory, make_spec: MakeSpec) -> None:
    compute, pods = create(), PodsSpec(kubernetes_driver_memory="48Mi")  # as its job has chosen
    handle = launch(compute, make_spec("starved").model_copy(update={"pods": pods}), {})
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    status = compute.observe(handle)
    assert status.exit_code == 137
    assert "more memory than its pod may have" in (status.reason or "")


def test_an_api_server_that_is_away_ends_no_driver(
    create: ComputeFactory,
    make_spec: MakeSpec,
    secrets: dict[str, str],
    site: GatedSite,
    cluster: KubernetesCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with cluster.open_faulty_access(tmp_path / "config") as proxy:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        compute = create()
        handle = launch(compute, make_spec("outage"), secrets)
        site.wait_for_visitor()
        proxy.fail("cut")
        wait_until(lambda: compute.observe(handle).running and proxy.hits >= OUTAGE_HITS, PATIENCE_SECONDS)
        assert create().observe(handle).running  # from the watch of the first one
        with pytest.raises(Unavailable):
            create(data=tmp_path / "other").observe(handle)  # an instance that knows nothing does not guess
        site.open()
        proxy.fail(None)
        wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
        assert compute.observe(handle).exit_code == 0
        wait_until(lambda: "completed" in "".join(compute.read_logs(handle)[-1:]), PATIENCE_SECONDS)
