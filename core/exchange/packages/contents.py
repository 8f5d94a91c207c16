"""The contents of a package: configuration that refers by name, without ids, data and secrets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from core.definitions.jobs.models import MaxRetries, RetryBackoffSeconds, TimeoutSeconds


class Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, from_attributes=True, frozen=True, extra="forbid", strict=True
    )


class CategoryPart(Part):
    name: str
    description: str | None = None
    icon: str | None = None
    visibility: str
    enabled: bool


class ExtensionPart(Part):
    """A Python function that the agent's pipeline calls by this name."""

    name: str
    type: str
    source: str


class AgentPart(Part):
    """`category` is a category's name. Agents of one category and name are numbered by their order."""

    category: str | None = None
    name: str
    description: str | None = None
    pipeline_yaml: str | None = None
    code: str | None = None
    code_type_id: str | None = None
    enabled: bool
    extensions: tuple[ExtensionPart, ...] = Field(default=(), strict=False)

    @property
    def label(self) -> str:
        """The agent's name in reports: `Category/Name`."""
        return f"{self.category}/{self.name}" if self.category else self.name


class AgentName(Part):
    """A reference from a job to an agent: the `number`th of this category and name."""

    category: str | None = None
    name: str
    number: int = Field(default=1, ge=1)


class CredentialName(Part):
    provider: str
    name: str


class JobPart(Part):
    """`input_dataset` is `schema.table`; credentials appear by name only."""

    name: str
    description: str | None = None
    agent: AgentName | None = None
    input_dataset: str | None = None
    cloud_credentials: tuple[CredentialName, ...] = Field(default=(), strict=False)
    parameters: dict[str, Any]
    scheduled_time: AwareDatetime | None = Field(default=None, strict=False)
    max_retries: MaxRetries = 0
    retry_backoff_seconds: RetryBackoffSeconds = 10
    timeout_seconds: TimeoutSeconds = 0
    retry_on: Literal["infrastructure", "any"] = "infrastructure"
    enabled: bool


class SchedulePart(Part):
    """A project's schedule apart from its cron expression; `job` is the name of its one job."""

    enabled: bool = True
    timezone: str = "UTC"
    job: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    execution_request_json: str | None = None
    overlap: str = "skip"
    missed: str = "latest"


class ProjectPart(Part):
    name: str
    description: str | None = None
    cron_schedule: str | None = None
    parameters: dict[str, Any]
    enabled: bool
    schedule: SchedulePart | None = None
    jobs: tuple[JobPart, ...] = Field(strict=False)


class Contents(Part):
    """Everything in one package. `plugins` are the distributions whose stages the agents use."""

    categories: tuple[CategoryPart, ...] = Field(strict=False)
    agents: tuple[AgentPart, ...] = Field(strict=False)
    projects: tuple[ProjectPart, ...] = Field(strict=False)
    plugins: tuple[str, ...] = Field(strict=False)
