"""The execution spec: all that a driver is told, as a file. Secrets are never in it; they come as environment."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from core.credentials.repository import environment
from core.executions.tokens import execution_token
from core.infra.encryption import KeyRing
from core.infra.secrets import service_key, write_private
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import Storage, output_key, pages_key, saves_key, spec_key
from core.tables import Execution


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Output(Part):
    """Folders that this attempt alone writes to: its output, and what its stages save."""

    path: str
    saves: str


class Input(Part):
    """What lies at a spindle:// path: the folders or files to read."""

    paths: list[str]
    format: str


class Webhook(Part):
    url: str


class Fetch(Part):
    allow_networks: list[str]


class Pages(Part):
    """Fetched pages that the organization's executions share; what came after `trusted_since` is this one's own."""

    folder: str
    lifetime_seconds: float
    keep_seconds: float
    max_bytes: int
    trusted_since: datetime


class Spark(Part):
    master: str
    conf: dict[str, str]


class ExecutionSpec(Part):
    """Read by `driver`; keys are camelCase in the file. `credentials` names each variable's credential."""

    execution_id: str
    job_id: str
    project_id: str
    organization_id: str
    job_name: str
    attempt: int
    pipeline_yaml: str
    parameters: dict[str, str | int | float | bool]
    row_transforms: dict[str, str]
    isolate_transforms: bool
    credentials: dict[str, str]
    limit: int | None
    output: Output
    inputs: dict[str, Input]
    local_folders: list[str]
    webhook: Webhook | None
    heartbeat_seconds: float
    fetch: Fetch
    pages: Pages
    spark: Spark
    preview_rows: int = 20


def execution_spec(settings: Settings, execution: Execution, shared: bool) -> ExecutionSpec:
    storage = open_storage(settings)
    attempt = (execution.organization_id, execution.id, execution.attempt)
    return ExecutionSpec(
        execution_id=execution.id,
        job_id=execution.job_id,
        project_id=execution.project_id,
        organization_id=execution.organization_id,
        job_name=execution.job_name,
        attempt=execution.attempt,
        pipeline_yaml=execution.pipeline_yaml,
        parameters=execution.parameters,
        row_transforms=execution.row_transforms,
        isolate_transforms=shared,
        credentials=execution.credentials,
        limit=execution.row_limit,
        output=Output(
            path=storage.url_for(output_key(*attempt), "spark"), saves=storage.url_for(saves_key(*attempt), "spark")
        ),
        inputs={path: _input(storage, found) for path, found in execution.inputs.items()},
        local_folders=list(settings.local_folders),
        webhook=Webhook(url=completion_url(settings, execution)),
        heartbeat_seconds=settings.heartbeat_seconds,
        fetch=Fetch(allow_networks=list(settings.fetch_allow_networks)),
        pages=Pages(
            folder=storage.url_for(pages_key(execution.organization_id), "spark"),
            lifetime_seconds=settings.page_trusted_seconds,
            keep_seconds=settings.page_kept_days * 86400,
            max_bytes=int(settings.page_gigabytes * 1e9),
            trusted_since=execution.created_at,
        ),
        spark=Spark(master=settings.spark_master, conf={"spark.driver.memory": settings.spark_driver_memory}),
    )


def write_spec(settings: Settings, execution: Execution, shared: bool = True) -> Path:
    """Writes the spec of the execution's current attempt, readable by the service's user alone.

    `shared` by several organizations: users' Python then runs isolated or not at all.
    """
    key = spec_key(execution.organization_id, execution.id, execution.attempt)
    path = LocalStorage(settings.data / "storage").path(key)
    write_private(path, execution_spec(settings, execution, shared).model_dump_json(by_alias=True, indent=2))
    return path


def driver_environment(settings: Settings, execution: Execution) -> dict[str, str]:
    """What the driver's environment has beyond the service's own: its secrets. Conflict when one cannot be opened."""
    return {
        **environment(execution, KeyRing(service_key(settings))),
        "SPINDLE_EXECUTION_TOKEN": execution_token(settings, execution.id, execution.attempt),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def completion_url(settings: Settings, execution: Execution) -> str:
    return f"{settings.service_url}/projects/id/{execution.project_id}/jobs/{execution.job_id}/completion"


def _input(storage: Storage, found: dict[str, Any]) -> Input:
    return Input(paths=[storage.url_for(key, "spark") for key in found["locations"]], format=found["format"])
