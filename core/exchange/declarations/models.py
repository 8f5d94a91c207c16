"""Declared categories, agents, projects and jobs, as spindle.yaml has them. Records refer to each other by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from core.definitions.jobs.models import MaxRetries, RetryBackoffSeconds, TimeoutSeconds

# (kind, name, ...) from the outside in: project before job; category (or "") before agent before extension
Key = tuple[str, ...]
KINDS = ("category", "agent", "extension", "project", "job")


_EXAMPLE: dict[str, Any] = {
    "categories": [{"name": "Shops"}],
    "agents": [
        {
            "name": "Crawler",
            "category": "Shops",
            "pipeline": {
                "fetch": {"url": "https://books.toscrape.com/"},
                "pipeline": [{"stage": "extract", "args": [{"selector": "h1", "as": "title"}]}],
            },
        }
    ],
    "projects": [{"name": "Books", "jobs": [{"name": "titles", "agent": "Shops/Crawler"}]}],
}


class NamedDeclaration(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    name: str


class RecordDeclaration(NamedDeclaration):
    description: str | None = None
    enabled: bool | None = Field(default=None, description="Whether it is in use.")


class CategoryDeclaration(RecordDeclaration):
    icon: str | None = None
    visibility: str | None = None


class ExtensionDeclaration(NamedDeclaration):
    """A Python function for the agent's pipeline. `spindle apply` sends `functionFile`, a path, as `function`."""

    function: str | None = Field(default=None, description="The text of a Python module with the function.")
    function_file: str | None = Field(default=None, description="A path; refused by the server.")


class AgentDeclaration(RecordDeclaration):
    """An agent with `pipeline` or `code` (Python). `spindle apply` sends `pipelineFile`, a path, as `pipeline`."""

    category: str | None = Field(default=None, description="Name of the category.")
    pipeline: str | dict[str, Any] | None = Field(default=None, description="The pipeline, as YAML or as a map.")
    pipeline_file: str | None = Field(default=None, description="A path; refused by the server.")
    code: str | None = None
    extensions: list[ExtensionDeclaration] | None = Field(default=None, description="Functions that it calls.")


class JobDeclaration(RecordDeclaration):
    """A job; `agent` is NAME or CATEGORY/NAME, `inputDataset` the SQL name SCHEMA.TABLE."""

    agent: str | None = Field(default=None, description="Name of the agent: `Category/Name`, or the name alone.")
    input_dataset: str | None = Field(default=None, description="The input as SQL names it: `schema.table`.")
    cloud_credentials: list[str] | None = Field(default=None, description="Credentials as `PROVIDER/name`.")
    parameters: dict[str, Any] | None = None
    scheduled_time: AwareDatetime | None = Field(default=None, strict=False)
    max_retries: MaxRetries | None = None
    retry_backoff_seconds: RetryBackoffSeconds | None = None
    timeout_seconds: TimeoutSeconds | None = None
    retry_on: Literal["infrastructure", "any"] | None = None


class ScheduleDeclaration(BaseModel):
    """The schedule of a project, whose times are the project's `cronSchedule`."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    enabled: bool | None = Field(default=None, description="Whether it fires.")
    timezone: str | None = None
    job: str | None = Field(default=None, description="Name of the one job that it executes; all without it.")
    parameters: dict[str, Any] | None = None
    execution_request_json: str | None = None
    overlap: str | None = None
    missed: str | None = None


class ProjectDeclaration(RecordDeclaration):
    cron_schedule: str | None = None
    schedule: ScheduleDeclaration | None = Field(default=None, description="How its cron schedule is executed.")
    parameters: dict[str, Any] | None = None
    jobs: list[JobDeclaration] | None = Field(default=None, description="Jobs of the project.")


class Declaration(BaseModel):
    """Records to create or change. Fields that are left out keep their values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, json_schema_extra={"examples": [_EXAMPLE]})

    categories: list[CategoryDeclaration] | None = Field(default=None, description="Categories of agents.")
    agents: list[AgentDeclaration] | None = Field(default=None, description="Agents with their pipelines.")
    projects: list[ProjectDeclaration] | None = Field(default=None, description="Projects with their jobs.")

    def owns(self, key: Key) -> bool:
        """Return whether --prune deletes an undeclared record with this key: its section is in the file."""
        if parent := get_parent(key):
            return self._sections.get(parent) is not None
        return {"category": self.categories, "agent": self.agents, "project": self.projects}[key[0]] is not None

    @cached_property
    def _sections(self) -> dict[Key, Sequence[NamedDeclaration] | None]:
        """The jobs by project and the extensions by agent; None for a section that the declaration omits."""
        sections: dict[Key, Sequence[NamedDeclaration] | None] = {
            ("project", each.name): each.jobs for each in self.projects or ()
        }
        return sections | {("agent", each.category or "", each.name): each.extensions for each in self.agents or ()}

    def iter_keys(self) -> Iterator[Key]:
        """Iterate over the declared records, in the order of the document."""
        yield from (("category", each.name) for each in self.categories or ())
        for agent in self.agents or ():
            names = agent.category or "", agent.name
            yield ("agent", *names)
            yield from (("extension", *names, each.name) for each in agent.extensions or ())
        for project in self.projects or ():
            yield ("project", project.name)
            yield from (("job", project.name, each.name) for each in project.jobs or ())


def format_name(key: Key) -> str:
    """Return the name for messages, such as `Shop/Books`."""
    return "/".join(part for part in key[1:] if part)


def get_parent(key: Key) -> Key | None:
    """Return the record that contains this one: a job's project, an extension's agent."""
    parent = {"job": "project", "extension": "agent"}.get(key[0])
    return (parent, *key[1:-1]) if parent else None
