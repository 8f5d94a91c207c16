"""Spark on Kubernetes: the pods of an organization, and whether the cluster accepts another driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from core.errors import Unavailable
from core.infra.cluster import Cluster, Refused
from core.infra.pods import INSTANCE, ORGANIZATION, ROLE, Manifest, build_placement
from core.infra.settings import Settings


def count_pods(settings: Settings, organization_id: str) -> Mapping[str, int]:
    """Return the number of an organization's running pods by role, `driver` and `executor`. Raises Unavailable."""
    selector = f"{INSTANCE}={settings.kubernetes.instance},{ORGANIZATION}={organization_id}"
    pods = Cluster(settings).list_pods(selector).pods
    return Counter(pod["metadata"]["labels"].get(ROLE, "") for pod in pods if _is_running(pod))


def find_driver_address(settings: Settings, organization_id: str, name: str) -> str | None:
    """Return the address of an organization's running pod of this name; None without one. Raises Unavailable."""
    pod = Cluster(settings).find_pod(name)
    if pod is None or not _is_running(pod) or pod["metadata"]["labels"].get(ORGANIZATION) != organization_id:
        return None
    return pod["status"]["podIP"]


def check_cluster(settings: Settings) -> None:
    """Raise Unavailable when the cluster does not accept a driver: by a quota, missing rights, or because it is away.

    It is a dry run, which creates nothing.
    """
    try:
        Cluster(settings).check_pod(_build_example(settings))
    except Refused as error:
        raise Unavailable(error.sentence) from error


def _build_example(settings: Settings) -> Manifest:
    placement = build_placement(settings.kubernetes)
    resources = {"cpu": settings.kubernetes.driver_cpu, "memory": settings.kubernetes.driver_memory}
    container = {
        **placement.container,
        "name": "driver",
        "image": settings.kubernetes.image,
        "resources": {"requests": resources, "limits": {"memory": settings.kubernetes.driver_memory}},
    }
    account = settings.kubernetes.service_account
    spec = {**placement.pod, "restartPolicy": "Never", "serviceAccountName": account, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "spindle-example-"}, "spec": spec}


def _is_running(pod: Manifest) -> bool:
    return pod.get("status", {}).get("phase") == "Running"
