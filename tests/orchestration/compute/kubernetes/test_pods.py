"""Manifests of a driver's pod and its Secret."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from core.infra.settings import Settings
from driver.host_folder import SPEC_FILE
from orchestration.compute.kubernetes.executors import build_executor_template, configure_spark
from orchestration.compute.kubernetes.pods import (
    build_pod,
    build_secret,
    name_pod,
    parse_handle,
    select_drivers,
)
from orchestration.compute.protocol import DriverHandle
from pipelines.contract.request import RunRequest
from tests.support.run_requests import make_request

HANDLE = DriverHandle("0190-org", "0190-exec", 2)
VARIABLES = {"API_KEY": "canary", "SPINDLE_EXECUTION_TOKEN": "whsec_canary"}
FILES = (SPEC_FILE,)
NEEDED: dict[str, Any] = {
    "compute": "kubernetes",
    "storage": "s3://bucket/prefix",
    "kubernetes_image": "registry/spindle-spark:1",
    "public_url": "http://spindle:8080",
    "secret_key": 32 * "k",
}


@pytest.fixture
def spec() -> RunRequest:
    return make_request(HANDLE.execution_id, organization_id=HANDLE.organization_id, attempt=HANDLE.attempt)


def test_secrets_are_in_the_secret_alone(spec: RunRequest) -> None:
    settings = Settings(**NEEDED)
    pod = build_pod(settings, HANDLE, VARIABLES, FILES)
    secret = build_secret(settings, HANDLE, "uid-of-the-pod", {**VARIABLES, SPEC_FILE: spec.to_json()})
    assert "canary" not in str(pod)
    assert "pipeline: []" not in str(pod)
    content = {name: b64decode(value).decode() for name, value in secret["data"].items()}
    assert content == {**VARIABLES, "spec.json": spec.to_json()}
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", name_pod(HANDLE), "uid-of-the-pod")
    referred = {each["name"] for each in pod["spec"]["containers"][0]["env"] if "valueFrom" in each}
    assert referred == VARIABLES.keys()


def test_a_pod_has_the_fewest_rights() -> None:
    pod = build_pod(Settings(**NEEDED), HANDLE, VARIABLES, FILES)["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_settings_place_the_pod() -> None:
    settings = Settings(
        **NEEDED,
        kubernetes_node_selector="disk=ssd, zone=a",  # pyright: ignore[reportArgumentType]
        kubernetes_tolerations="gpu, spot=yes:NoSchedule",  # pyright: ignore[reportArgumentType]
        kubernetes_pull_secrets=("registry",),
        kubernetes_driver_memory="5Gi",
    )
    pod = build_pod(settings, HANDLE, VARIABLES, FILES)["spec"]
    assert pod["nodeSelector"] == {"disk": "ssd", "zone": "a"}
    assert pod["tolerations"] == [
        {"key": "gpu", "operator": "Exists"},
        {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    ]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "5Gi"}


def test_labels_identify_the_attempt() -> None:
    labels = build_pod(Settings(**NEEDED), HANDLE, VARIABLES, FILES)["metadata"]["labels"]
    assert parse_handle(labels) == HANDLE
    assert parse_handle({"app": "another"}) is None
    selector = dict(part.split("=") for part in select_drivers(Settings(**NEEDED)).split(","))
    assert selector.items() <= labels.items()


PAGE_KEY = "spark.org.apache.spark.ui.JWSFilter.param.secretKey"


def test_executors_are_pods_like_the_driver(spec: RunRequest) -> None:
    settings = Settings(
        **NEEDED,
        spark_master="k8s://https://kubernetes.default.svc:443",
        kubernetes_executors=3,
        kubernetes_tolerations="gpu",  # pyright: ignore[reportArgumentType]
    )
    conf = configure_spark(settings, name_pod(HANDLE), spec).spark.conf
    assert conf["spark.executor.instances"] == "3"
    changing = settings.replace(kubernetes_dynamic_allocation=True)
    limits = configure_spark(changing, name_pod(HANDLE), spec).spark.conf
    assert (limits["spark.dynamicAllocation.maxExecutors"], limits.get("spark.executor.instances")) == ("3", None)
    assert conf["spark.kubernetes.driver.pod.name"] == name_pod(HANDLE)
    driver = build_pod(settings, HANDLE, VARIABLES, (SPEC_FILE,))
    executor = json.loads(build_executor_template(settings, HANDLE))
    for part in ("securityContext", "tolerations", "automountServiceAccountToken"):
        assert executor["spec"][part] == driver["spec"][part]
    security = [each["spec"]["containers"][0]["securityContext"] for each in (driver, executor)]
    assert security[0] == security[1]
    mounted = [each["mountPath"] for each in executor["spec"]["containers"][0]["volumeMounts"]]
    assert mounted == ["/tmp"]  # Spark mounts the other one, and a second mount would be refused
    assert parse_handle(executor["metadata"]["labels"]) == HANDLE
    alone = configure_spark(Settings(**NEEDED), name_pod(HANDLE), spec).spark.conf
    assert [name for name in alone if not name.startswith("spark.ui.")] == [PAGE_KEY]
    another = configure_spark(Settings(**NEEDED), name_pod(replace(HANDLE, attempt=3)), spec).spark.conf
    assert alone[PAGE_KEY] != another[PAGE_KEY]  # the page has no login, and takes what is signed with its own key
