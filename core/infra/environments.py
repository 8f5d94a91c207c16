"""The Python environments of an instance, which all its jobs share."""

from __future__ import annotations

from core.infra.settings import Settings
from pipelines.environments.folders import EnvironmentStore

FOLDER = "packages"  # in the data folder


def open_environments(settings: Settings) -> EnvironmentStore:
    """Return the environments below the data folder, with the operator's index."""
    index = settings.plugins.package_index.get_secret_value() if settings.plugins.package_index else None
    return EnvironmentStore.open(settings.data / FOLDER, index)
