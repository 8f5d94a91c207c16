"""The common parts of all our pods: few rights, a folder of their own, and the nodes that the settings choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.infra.settings.kubernetes import KubernetesSettings

Manifest = dict[str, Any]

INSTANCE = "app.kubernetes.io/instance"
ORGANIZATION, EXECUTION, ATTEMPT, ROLE = (
    f"spindle/{name}" for name in ("organization", "execution", "attempt", "role")
)
# of drivers that serve several executions: what they have in common, and how the one of the labels has ended, once the
# driver waits for another one
POOL, EXIT_CODE = "spindle/pool", "spindle/exit-code"
USER = 65532  # of the image; it owns no file
SCRATCH = "/scratch"
SPARK_PAGE_PORT = 4040  # of a driver


@dataclass(frozen=True, slots=True)
class Placement:
    """The parts of a pod and of its container that drivers and executors have in common."""

    pod: Manifest
    container: Manifest


def build_placement(settings: KubernetesSettings) -> Placement:
    pod = {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "imagePullSecrets": [{"name": each} for each in settings.pull_secrets],
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [_parse_toleration(each) for each in settings.tolerations],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    container = {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "scratch", "mountPath": SCRATCH},
            {"name": "scratch", "mountPath": "/tmp", "subPath": "tmp"},  # noqa: S108 - a folder of only this pod
        ],
    }
    return Placement(pod, container)


def _parse_toleration(text: str) -> Manifest:
    """Return the toleration of `key=value:effect`, `key:effect` or `key`."""
    taint, _, effect = text.partition(":")
    key, has_value, value = taint.partition("=")
    found = {"key": key, "operator": "Equal", "value": value} if has_value else {"key": key, "operator": "Exists"}
    return {**found, "effect": effect} if effect else found
