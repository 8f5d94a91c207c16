"""Executors of a driver in a pod: pods too, which Spark's own scheduler creates in client mode.

The driver's pod owns them, so they end with it. Spark creates them from a template in the folder of the driver's spec.
"""

from __future__ import annotations

import json
from typing import Any

from core.infra.pods import ROLE, SCRATCH, SPARK_PAGE_PORT, build_placement
from core.infra.settings import Settings
from core.lifecycle.executions.tokens import derive_page_key
from orchestration.compute.kubernetes.pods import (
    EXECUTOR_TEMPLATE,
    SPEC_FOLDER,
    build_labels,
)
from orchestration.compute.protocol import DriverHandle
from pipelines.contract.request import RunRequest
from pipelines.spark.cluster import has_executor_pods

# the page of Spark takes requests that the service has signed
_PAGE_FILTER = "org.apache.spark.ui.JWSFilter"
_IN_POD = {
    "spark.ui.port": str(SPARK_PAGE_PORT),
    "spark.ui.filters": _PAGE_FILTER,
}


def configure_spark(settings: Settings, pod: str, spec: RunRequest) -> RunRequest:
    """Return the spec with Spark's settings for the driver in this pod, and those of its scheduler of executors."""
    key = derive_page_key(settings, pod)
    conf = {**spec.spark.conf, **_IN_POD, f"spark.{_PAGE_FILTER}.param.secretKey": key}
    if has_executor_pods(settings.spark.master):
        conf |= _build_scheduler_conf(settings, pod)
    return spec.model_copy(update={"spark": spec.spark.model_copy(update={"conf": conf})})


def _build_scheduler_conf(settings: Settings, pod: str) -> dict[str, str]:
    conf = {
        "spark.kubernetes.namespace": settings.kubernetes.namespace,
        "spark.kubernetes.container.image": settings.kubernetes.image or "",
        "spark.kubernetes.driver.pod.name": pod,
        "spark.kubernetes.executor.podTemplateFile": f"{SPEC_FOLDER}/{EXECUTOR_TEMPLATE}",
        "spark.kubernetes.executor.podNamePrefix": pod,
        "spark.kubernetes.authenticate.executor.serviceAccountName": settings.kubernetes.service_account,
        "spark.kubernetes.executor.request.cores": settings.kubernetes.executor_cpu,
        **_build_allocation_conf(settings),
        "spark.executor.cores": str(settings.kubernetes.executor_cores),
        # rights that the driver's account does not need then
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        # the driver reads the logs at its end, also of those that have failed
        "spark.kubernetes.executor.deleteOnTermination": "false",
    }
    if settings.kubernetes.pull_secrets:
        conf["spark.kubernetes.container.image.pullSecrets"] = ",".join(settings.kubernetes.pull_secrets)
    return conf


def _build_allocation_conf(settings: Settings) -> dict[str, str]:
    """Return a fixed number of executors, or limits within which Spark requests as many as its tasks need."""
    number = str(settings.kubernetes.executors)
    if not settings.kubernetes.dynamic_allocation:
        return {"spark.executor.instances": number}
    # Kubernetes has no shuffle service: an executor stays while its shuffle files are needed
    options = {"enabled": "true", "shuffleTracking.enabled": "true", "minExecutors": "1", "maxExecutors": number}
    return {f"spark.dynamicAllocation.{name}": value for name, value in options.items()}


def build_executor_template(settings: Settings, handle: DriverHandle) -> str:
    """Return the template of the executors' pods; Spark reads JSON as YAML."""
    placement = build_placement(settings.kubernetes)
    container: dict[str, Any] = {
        **placement.container,
        "name": "executor",
        "env": [{"name": "HOME", "value": SCRATCH}],
        # Spark mounts the driver's SPARK_LOCAL_DIRS itself, which is the folder `scratch`
        "volumeMounts": [each for each in placement.container["volumeMounts"] if each["mountPath"] != SCRATCH],
    }
    template = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {**build_labels(settings, handle), ROLE: "executor"}},
        "spec": {**placement.pod, "containers": [container]},
    }
    return json.dumps(template)
