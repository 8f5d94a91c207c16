"""The execution spec: all that a driver is told. Secrets come as environment variables, never in the file."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.alias_generators import to_camel

from pipelines.language.parameters import Value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="ignore")


class OutputPlace(_Part):
    """A folder that this attempt alone writes; below `saves` what its stages save, each in a folder of its own."""

    path: str
    saves: str | None = None


class Input(_Part):
    paths: tuple[str, ...]
    format: str


class Webhook(_Part):
    url: str


class Fetch(_Part):
    allow_networks: tuple[str, ...] = ()


class Pages(_Part):
    """The folder of the pages that runs of the organization share; `trusted_since` is when the execution began."""

    folder: str
    lifetime_seconds: NonNegativeFloat
    keep_seconds: PositiveFloat
    max_bytes: PositiveInt
    trusted_since: AwareDatetime | None = None


class Spark(_Part):
    master: str = "local[*]"
    conf: dict[str, str] = Field(default_factory=dict[str, str])


class ExecutionSpec(_Part):
    execution_id: str
    job_id: str
    project_id: str
    organization_id: str
    job_name: str
    attempt: int
    pipeline_yaml: str
    parameters: dict[str, Value] = Field(default_factory=dict[str, Value])
    row_transforms: dict[str, str] = Field(default_factory=dict[str, str])
    isolate_transforms: bool = True
    credentials: dict[str, str] = Field(default_factory=dict[str, str])
    limit: int | None = None
    output: OutputPlace
    inputs: dict[str, Input] = Field(default_factory=dict[str, Input])
    local_folders: tuple[str, ...] = ()
    webhook: Webhook | None = None
    heartbeat_seconds: PositiveFloat = 10
    fetch: Fetch = Fetch()
    pages: Pages | None = None
    spark: Spark = Spark()
    preview_rows: int = 20


def read_spec(path: Path) -> ExecutionSpec:
    return ExecutionSpec.model_validate(json.loads(path.read_text()))
