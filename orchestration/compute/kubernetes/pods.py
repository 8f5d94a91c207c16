"""The objects of one attempt in the cluster, as manifests: a pod for the driver, and a Secret that the pod owns.

A person who may read pods and events sees neither secrets nor the pipeline: both are in the Secret. The cluster's own
collector deletes it with the pod.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from core.infra.pods import (
    ATTEMPT,
    EXECUTION,
    EXIT_CODE,
    INSTANCE,
    ORGANIZATION,
    POOL,
    ROLE,
    SCRATCH,
    Manifest,
    build_placement,
)
from core.infra.settings import Settings
from driver.host_folder import SPEC_FILE
from orchestration.compute.protocol import DriverHandle

CONTAINER = "driver"
SPEC_FOLDER, EXECUTOR_TEMPLATE = "/spindle", "executor.json"
TERMINATION_SECONDS = 3
MAX_SECRET_BYTES = 1_000_000  # the API server takes 1 MiB


def name_pod(handle: DriverHandle) -> str:
    """Return the name of the pod that is created for an attempt; one that has served others has another name."""
    return f"spindle-{handle.execution_id}-{handle.attempt}".lower()


def build_labels(settings: Settings, handle: DriverHandle) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "spindle",
        INSTANCE: settings.kubernetes.instance,
        **label_attempt(handle),
    }


def label_attempt(handle: DriverHandle) -> dict[str, str]:
    """Return the labels of the attempt that a pod has now."""
    return {ORGANIZATION: handle.organization_id, EXECUTION: handle.execution_id, ATTEMPT: str(handle.attempt)}


def has_attempt(pod: Mapping[str, Any], handle: DriverHandle) -> bool:
    return label_attempt(handle).items() <= pod["metadata"].get("labels", {}).items()


def is_idle(pod: Mapping[str, Any]) -> bool:
    """Return whether the driver waits for another execution; the one of its labels has ended."""
    is_running = pod.get("status", {}).get("phase") == "Running"
    return is_running and EXIT_CODE in pod["metadata"].get("labels", {})


def parse_handle(labels: Mapping[str, str]) -> DriverHandle | None:
    """Return the attempt that an object belongs to; None for labels that are not ours."""
    try:
        return DriverHandle(labels[ORGANIZATION], labels[EXECUTION], int(labels[ATTEMPT]))
    except (KeyError, ValueError):
        return None


def select_drivers(settings: Settings) -> str:
    """Return the selector of all drivers of this installation, which may share a namespace with others."""
    return f"{INSTANCE}={settings.kubernetes.instance},{ROLE}=driver"


def build_pod(
    settings: Settings,
    handle: DriverHandle,
    variables: Iterable[str],
    files: Iterable[str],
    has_token: bool = False,
    pool: str | None = None,
) -> Manifest:
    """Return the driver's pod; `variables` and `files` are the keys of its Secret.

    Only a driver that creates executors `has_token`, that of its service account. One with a `pool` serves several
    executions of that.
    """
    name, placement = name_pod(handle), build_placement(settings.kubernetes)
    arguments = ["--host", SPEC_FOLDER] if pool else [f"{SPEC_FOLDER}/{SPEC_FILE}"]
    items = [{"key": file, "path": file} for file in files]
    container = {
        **placement.container,
        "name": CONTAINER,
        "image": settings.kubernetes.image,
        "args": ["python3", "-P", "-m", "driver", *arguments],
        "workingDir": SCRATCH,
        "env": [*_list_plain_variables(), *(_refer(name, variable) for variable in sorted(variables))],
        "resources": {
            "requests": {"cpu": settings.kubernetes.driver_cpu, "memory": settings.kubernetes.driver_memory},
            "limits": {"memory": settings.kubernetes.driver_memory},
        },
        "volumeMounts": [
            *placement.container["volumeMounts"],
            {"name": "spec", "mountPath": SPEC_FOLDER, "readOnly": True},
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**build_labels(settings, handle), ROLE: "driver", **({POOL: pool} if pool else {})},
        },
        "spec": {
            **placement.pod,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": TERMINATION_SECONDS,
            "serviceAccountName": settings.kubernetes.service_account,
            "automountServiceAccountToken": has_token,
            "containers": [container],
            "volumes": [
                *placement.pod["volumes"],
                {"name": "spec", "secret": {"secretName": name, "items": items}},
            ],
        },
    }


def build_secret(settings: Settings, handle: DriverHandle, pod_uid: str, content: Mapping[str, str]) -> Manifest:
    """Return the Secret with the files and the variables of an attempt, which its pod owns."""
    name = name_pod(handle)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod_uid, "blockOwnerDeletion": False}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": build_labels(settings, handle), "ownerReferences": [owner]},
        "immutable": True,
        "type": "Opaque",
        "data": {key: b64encode(value.encode()).decode() for key, value in content.items()},
    }


def _list_plain_variables() -> Iterable[Manifest]:
    plain = {
        "HOME": SCRATCH,
        "TMPDIR": SCRATCH,
        "SPARK_LOCAL_DIRS": SCRATCH,
        "PYTHONSAFEPATH": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return ({"name": name, "value": value} for name, value in plain.items())


def _refer(secret: str, variable: str) -> Manifest:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": variable}}}
