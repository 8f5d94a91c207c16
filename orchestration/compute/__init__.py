"""Compute: the protocol, its implementations, and the factory that selects one."""

from __future__ import annotations

from core.infra.database import Database
from core.infra.settings import Settings
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import Compute


def create_compute(settings: Settings, database: Database | None = None) -> Compute:
    if settings.drivers.compute == "local":
        return LocalCompute(settings, database)
    from orchestration.compute.kubernetes.compute import KubernetesCompute  # its client takes a second to import

    return KubernetesCompute(settings)
