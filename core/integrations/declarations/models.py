"""Declared categories, agents, projects and jobs, as spindle.yaml has them. Records refer to each other by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from core.definitions.agents.validation import looks_like_pipeline
from core.definitions.jobs.models import JobSettings
from core.definitions.pools.models import PoolLimit, PoolName
from core.integrations.notifications.models import RuleSettings
from core.integrations.webhooks.models import EventType
from pipelines.language.names import normalize
from pipelines.language.nodes import write_yaml

# (kind, name, ...) from the outside in: project before job; category (or "") before agent
Key = tuple[str, ...]

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


class DeclaredFields(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


class RecordDeclaration(DeclaredFields):
    name: str
    description: str | None = None
    enabled: bool | None = Field(default=None, description="Whether it is in use.")


class CategoryDeclaration(RecordDeclaration):
    icon: str | None = None
    visibility: Annotated[str, AfterValidator(str.upper)] | None = None


class PoolDeclaration(DeclaredFields):
    """A limit of the executions that run at once, in all projects, of the jobs that name it."""

    name: PoolName
    limit: PoolLimit = Field(description="Most executions at once.")


class ExtensionDeclaration(DeclaredFields):
    """A Python function for the agent's pipeline. `spindle apply` sends `functionFile`, a path, as `function`."""

    name: str
    function: str | None = Field(default=None, description="The text of a Python module with the function.")
    function_file: str | None = Field(default=None, description="A path; refused by the server.")


class AgentDeclaration(RecordDeclaration):
    """An agent with `pipeline` or `code` (Python). `spindle apply` sends `pipelineFile`, a path, as `pipeline`."""

    category: str | None = Field(default=None, description="Name of the category.")
    pipeline: str | dict[str, Any] | None = Field(default=None, description="The pipeline, as YAML or as a map.")
    pipeline_file: str | None = Field(default=None, description="A path; refused by the server.")
    code: str | None = None
    code_type_id: str | None = None
    extensions: list[ExtensionDeclaration] | None = Field(default=None, description="Functions that it calls.")


class JobReferences(DeclaredFields):
    name: str
    agent: str | None = Field(default=None, description="Name of the agent: `Category/Name`, or the name alone.")
    input_dataset: str | None = Field(
        default=None,
        description="The input as SQL names it, `schema.table`; also the table of a job that has not run yet.",
    )
    cloud_credentials: list[str] | None = Field(default=None, description="Credentials as `PROVIDER/name`.")


class JobDeclaration(JobSettings, JobReferences):
    """A job; `agent` is NAME or CATEGORY/NAME, `inputDataset` the SQL name SCHEMA.TABLE."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)

    name: str  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
    scheduled_time: AwareDatetime | None = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default=None, strict=False
    )
    slug: str | None = Field(
        default=None, description="Its name in SQL, by which packages tell jobs of one name apart."
    )


class ScheduleDeclaration(DeclaredFields):
    """The schedule without a name, whose times are the project's `cronSchedule`."""

    enabled: bool | None = Field(default=None, description="Whether it fires.")
    timezone: str | None = None
    job: str | None = Field(default=None, description="Name of the one job that it executes; all without it.")
    parameters: dict[str, Any] | None = None
    execution_request_json: str | None = None
    overlap: str | None = None
    missed: str | None = None


class NamedScheduleDeclaration(ScheduleDeclaration):
    """A schedule with own times."""

    name: str = Field(description="Small letters, digits and single `_`; no two of a project have the same.")
    cron_schedule: str


class WebhookDeclaration(DeclaredFields):
    """A webhook of a project; its address tells it apart."""

    url: str = Field(description="An http or https address. Redirects are not followed.")
    description: str | None = None
    events: list[EventType] | None = Field(default=None, description="Which events are sent, all when empty.")
    enabled: bool | None = Field(default=None, description="Whether events are sent.")


class NotificationReferences(DeclaredFields):
    name: str = Field(description="Small letters, digits and single `_`; no two of a project have the same.")
    to: str | None = Field(default=None, description="The target: a credential as `PROVIDER/name`.")
    job: str | None = Field(default=None, description="Name of the one job that it is about; all without it.")


class NotificationDeclaration(RuleSettings, NotificationReferences):
    """A rule of messages to people about the jobs of a project."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class ProjectDeclaration(RecordDeclaration):
    cron_schedule: str | None = None
    driver_reuse: bool | None = Field(
        default=None, description="Whether its executions may share drivers with Spark, one after another."
    )
    schedule: ScheduleDeclaration | None = Field(default=None, description="How its cron schedule is executed.")
    schedules: list[NamedScheduleDeclaration] | None = Field(
        default=None, description="Schedules with names, each with its times, job and parameters."
    )
    parameters: dict[str, Any] | None = None
    webhooks: list[WebhookDeclaration] | None = Field(
        default=None, description="Addresses that its events are sent to; packages have none."
    )
    notifications: list[NotificationDeclaration] | None = Field(
        default=None, description="Messages to people about its jobs; packages have none."
    )
    jobs: list[JobDeclaration] | None = Field(default=None, description="Jobs of the project.")


class Declaration(BaseModel):
    """Records to create or change. Fields that are left out keep their values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, json_schema_extra={"examples": [_EXAMPLE]})

    pools: list[PoolDeclaration] | None = Field(
        default=None, description="Limits of executions at once, which jobs name; packages have none."
    )
    categories: list[CategoryDeclaration] | None = Field(default=None, description="Categories of agents.")
    agents: list[AgentDeclaration] | None = Field(default=None, description="Agents with their pipelines.")
    projects: list[ProjectDeclaration] | None = Field(default=None, description="Projects with their jobs.")

    @cached_property
    def agent_names(self) -> list[str]:
        """The names of the agents, which jobs of a package refer to."""
        return name_agents((each.category, each.name) for each in self.agents or ())

    def iter_keys(self) -> Iterator[Key]:
        """Iterate over the declared records, in the order of the document."""
        yield from (("pool", each.name) for each in self.pools or ())
        yield from (("category", each.name) for each in self.categories or ())
        for name, agent in zip(self.agent_names, self.agents or (), strict=True):
            yield ("agent", agent.category or "", agent.name)
            yield from (("extension", name, each.name) for each in agent.extensions or ())
        for project in self.projects or ():
            yield ("project", project.name)
            yield from (("job", project.name, each.name) for each in project.jobs or ())
            yield ("schedule", project.name)
            yield from (("schedule", project.name, each.name) for each in project.schedules or ())
            yield from (("webhook", project.name, each.url) for each in project.webhooks or ())
            yield from (("notification", project.name, each.name) for each in project.notifications or ())

    def find_repeated(self, *, complete: bool = False) -> tuple[Key, int] | None:
        """Return a record that is declared several times, and how often.

        In a `complete` declaration jobs and agents without a category may share a name.
        """
        counts: Counter[Key] = Counter()
        for kind, *names in self.iter_keys():
            if kind == "extension":
                names[-1] = normalize(names[-1])
            if not complete or (kind != "job" and (kind, names[0]) != ("agent", "")):
                counts[kind, *names] += 1
        return next(((key, count) for key, count in counts.items() if count > 1), None)

    def select_project(self, name: str) -> Declaration | None:
        """Return one project with the agents that its jobs refer to and their categories."""
        project = next((each for each in self.projects or () if each.name == name), None)
        if project is None:
            return None
        named = dict(zip(self.agent_names, self.agents or (), strict=True))
        used = {
            (named[each.agent].category, named[each.agent].name) for each in project.jobs or () if each.agent in named
        }
        agents = {label: each for label, each in named.items() if (each.category, each.name) in used}
        categories = [each for each in self.categories or () if each.name in {category for category, _ in used}]
        selected = Declaration(categories=categories, agents=list(agents.values()))
        names = dict(zip(agents, selected.agent_names, strict=True))
        jobs = [
            each.model_copy(update={"agent": names.get(each.agent or "", each.agent)}) for each in project.jobs or ()
        ]
        return selected.model_copy(update={"projects": [project.model_copy(update={"jobs": jobs})]})


def name_agents(agents: Iterable[tuple[str | None, str]]) -> list[str]:
    """Return a unique name for every category and name: `Shop/Crawler`, and `Shop/Crawler#2` for the next of a name."""
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for category, name in agents:
        unique = plain = format_name(("agent", category or "", name))
        while unique in names:
            numbers[plain] = numbers.get(plain, 1) + 1
            unique = f"{plain}#{numbers[plain]}"
        names[unique] = None
    return list(names)


def format_name(key: Key) -> str:
    """Return the name for messages, such as `Shop/Books`."""
    return "/".join(part for part in key[1:] if part)


def get_pipeline_text(declared: AgentDeclaration) -> str | None:
    """Return the pipeline as text, also one that is declared as code: a map becomes YAML."""
    if isinstance(declared.pipeline, dict):
        return write_yaml(declared.pipeline)
    if declared.pipeline is None and declared.code is not None and looks_like_pipeline(declared.code):
        return declared.code
    return declared.pipeline
