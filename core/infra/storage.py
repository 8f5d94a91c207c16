"""Where files lie. The database keeps storage keys, relative to the storage folder, so that the folder may move.

DATA/storage/<organization>/executions/<execution>/<attempt>/spec.json
DATA/storage/<organization>/executions/<execution>/<attempt>/output
DATA/storage/<organization>/executions/<execution>/<attempt>/saves/<number>
DATA/storage/<organization>/executions/<execution>/<attempt>/driver.log
DATA/storage/<organization>/packages/<package>.zip
DATA/storage/<organization>/pages
"""

from __future__ import annotations

import os
from pathlib import Path

from core.infra.settings import Settings


def root(settings: Settings) -> Path:
    return settings.data.resolve() / "storage"


def execution_key(organization_id: str, execution_id: str, attempt: int) -> str:
    return f"{organization_id}/executions/{execution_id}/{attempt}"


def output_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Storage key of the folder that one attempt alone writes to."""
    return f"{execution_key(organization_id, execution_id, attempt)}/output"


def saves_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Storage key of the folder below which the stages of one attempt save rows, each in a folder of its own."""
    return f"{execution_key(organization_id, execution_id, attempt)}/saves"


def physical(settings: Settings, key: str) -> str:
    """The path that Spark and DuckDB open for a storage key."""
    return str(root(settings) / key)


def output_path(settings: Settings, organization_id: str, execution_id: str, attempt: int) -> str:
    return physical(settings, output_key(organization_id, execution_id, attempt))


def spec_path(settings: Settings, organization_id: str, execution_id: str, attempt: int) -> Path:
    return root(settings) / execution_key(organization_id, execution_id, attempt) / "spec.json"


def pages_path(settings: Settings, organization_id: str) -> str:
    """The folder of the fetched pages that an organization's executions share."""
    return physical(settings, f"{organization_id}/pages")


def log_path(settings: Settings, organization_id: str, execution_id: str, attempt: int) -> Path:
    return root(settings) / execution_key(organization_id, execution_id, attempt) / "driver.log"


def package_path(settings: Settings, organization_id: str, package_id: str) -> Path:
    return root(settings) / organization_id / "packages" / f"{package_id}.zip"


def settle(settings: Settings, file: Path, place: Path) -> None:
    """Renames a file that is written to its place in storage; from then on a power cut does not lose it."""
    sync(file)
    file.replace(place)
    for folder in place.relative_to(root(settings)).parents:
        sync(root(settings) / folder)


def sync(path: Path) -> None:
    """Waits until the disk has what was written to the file, or the names that the folder holds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
