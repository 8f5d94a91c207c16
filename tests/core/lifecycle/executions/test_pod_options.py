"""The choices of projects and jobs for the pods of their executions."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import Conflict
from core.infra.settings import Settings
from core.lifecycle.executions.pod_options import apply_pods, choose_pods
from pipelines.contract.request import PodsSpec
from tests.support.cases import each_case

NEEDED: dict[str, Any] = {
    "compute": "kubernetes",
    "storage": "s3://bucket/prefix",
    "kubernetes_image": "registry/spindle-spark:1",
    "public_url": "http://spindle:8080",
    "kubernetes_max_driver_memory": "8Gi",
    "kubernetes_max_executors": 10,
    "kubernetes_node_selector": "zone=a",
    "kubernetes_node_choices": "disk=ssd",
    "spark_executor_memory": "512m",
}


def test_a_job_goes_before_its_project_and_both_before_the_service() -> None:
    settings = Settings(**NEEDED)
    project = {"cluster": {"driverMemory": "6Gi", "executors": 4, "nodeSelector": {"disk": "ssd"}}}
    found = apply_pods(
        settings,
        choose_pods(settings, {"cluster": {"executors": 10, "dynamicAllocation": True, "driverCpu": "250m"}}, project),
    )
    assert (found.kubernetes.driver_memory, found.spark.driver_memory) == ("6Gi", "5120m")
    assert (found.kubernetes.executors, found.kubernetes.driver_cpu) == (10, "250m")
    assert found.kubernetes.dynamic_allocation
    assert found.kubernetes.node_selector == (("zone", "a"), ("disk", "ssd"))
    assert found.spark.executor_memory == settings.spark.executor_memory
    assert choose_pods(settings, {"cluster": "a value"}, {}) == PodsSpec()


@each_case(
    ("option", "path", "reason"),
    [
        ({"driverMemory": "9Gi"}, "driverMemory", "9Gi is more than 8Gi, the limit of this service"),
        ({"driverCpu": "0.6"}, "driverCpu", "0.6 is more than 500m"),
        ({"executors": 11}, "executors", "11 is more than 10"),
        ({"executorCpu": "2"}, "executorCpu", "2 is more than 1"),
        ({"executorMemory": "1g"}, "executorMemory", "1g is more than 512m"),
        ({"nodeSelector": {"disk": "hdd"}}, "nodeSelector", "disk=hdd is not in SPINDLE_KUBERNETES_NODE_CHOICES"),
        ({"driverMemory": "lots"}, "driverMemory", "String should match pattern"),
        ({"image": "mine"}, "image", "Extra inputs are not permitted"),
    ],
)
def test_what_is_beyond_the_limits_is_refused_with_its_place(option: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(Conflict, match=reason) as caught:
        choose_pods(Settings(**NEEDED), {"cluster": option}, {})
    (detail,) = caught.value.details
    assert (detail.path, detail.code) == (f"parameters.cluster.{path}", "cluster-option")


def test_a_service_without_pods_has_no_such_choice() -> None:
    with pytest.raises(Conflict, match="are no pods"):
        choose_pods(Settings(), {"cluster": {"executors": 2}}, {})
