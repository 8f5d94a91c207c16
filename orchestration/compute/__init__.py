"""Compute: drivers as subprocesses of this machine. Which implementation is used, `create_compute` alone decides."""

from __future__ import annotations

from core.infra.settings import Settings
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import Compute


def create_compute(settings: Settings) -> Compute:
    return LocalCompute(settings)
