"""The fields of a job: those that a request or a file sets, and those that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, TypeAdapter
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from core.definitions.jobs.partitions import PartitionsField, TimeDimension, ValuesDimension, dump_partitions
from core.definitions.pools.models import PoolName
from core.infra.changes import LOWER, WHOLE, Changes, ClearableTime, Name, example

MAX_RETRIES = 20
SECONDS_PER_DAY = 86400

MaxRetries = Annotated[int, Field(ge=0, le=MAX_RETRIES)]
RetryBackoffSeconds = Annotated[int, Field(ge=0, le=SECONDS_PER_DAY)]
TimeoutSeconds = Annotated[int, Field(ge=0, le=30 * SECONDS_PER_DAY)]
RetryOn = Literal["infrastructure", "any"]
"""The failures that a job's retries are for."""
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,63}$")]
TagValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{0,63}$")]
"""What Dagster accepts in a tag; a slash is left to names of Dagster and Spindle."""
Owner = Annotated[str, Field(max_length=254, pattern=r"^(team:[A-Za-z0-9_.-]+|[\w.+-]+@[\w-]+(\.[\w-]+)+)$")]
"""What Dagster accepts as an owner."""
JobEngine = Literal["auto", "local", "spark"]
"""What runs a job's executions (pipelines.language.engines)."""


def _check_duration(text: str) -> str:
    """Refuse a duration that is not positive, or longer than ten years."""
    if not timedelta(minutes=1) <= parse_duration(text) <= MAX_AGE:
        raise ValueError("a duration from PT1M to P3650D")
    return text


def _drop_repeated(names: list[str]) -> list[str]:
    return [*dict.fromkeys(names)]


def parse_duration(text: str) -> timedelta:
    """Read a duration of ISO 8601, such as PT26H; raise ValueError for other texts."""
    return _DURATION.validate_python(text)


def compute_stale_at(freshness: Mapping[str, Any], since: datetime) -> datetime | None:
    """Return until when rows of that time are fresh; None where they always are."""
    return since + parse_duration(freshness["maxAge"]) if freshness.get("maxAge") else None


_DURATION = TypeAdapter(Annotated[timedelta, Strict(False)])
MAX_AGE = timedelta(days=3650)
_AGE = "A duration of ISO 8601, such as PT26H: from PT1M to P3650D."
_ON_NEW_INPUT = "Whether new versions of the datasets that it reads execute it."


class Freshness(TypedDict, total=False):
    """How old the newest rows of a job may be; without `maxAge` of any age."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # pyright: ignore[reportGeneralTypeIssues]
    maxAge: Annotated[str, AfterValidator(_check_duration), Field(description=_AGE)]


class JobTrigger(TypedDict, total=False):
    """What executes a job besides schedules: new versions of the datasets that it reads."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # pyright: ignore[reportGeneralTypeIssues]
    onNewInput: Annotated[bool, Field(description=_ON_NEW_INPUT)]


class JobSettings(Changes):
    """The fields that do not refer to other records."""

    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    tags: Annotated[dict[Tag, TagValue], Field(max_length=50)] | None = None
    """Names and values by which Dagster finds its asset and runs: letters, digits, `_`, `.` and `-`."""
    owners: Annotated[list[Owner], Field(max_length=20)] | None = None
    """Who answers for it, for Dagster: e-mail addresses, and teams as `team:prices`."""
    depends_on: Annotated[list[str], Field(max_length=50)] | None = None
    """Names of jobs of its project: at a tick it begins when they have completed, as if it read their output."""
    freshness: Freshness | None = None
    """`{maxAge: PT26H}`: when its table counts as stale, which is told once; `{}` is never."""
    trigger: JobTrigger | None = None
    """`{onNewInput: true}`: it is executed when the datasets that it reads have new versions; `{}` is not."""
    scheduled_time: ClearableTime | None = None
    max_retries: Annotated[MaxRetries, WHOLE] | None = None
    retry_backoff_seconds: Annotated[RetryBackoffSeconds, WHOLE] | None = None
    timeout_seconds: Annotated[TimeoutSeconds, WHOLE] | None = None
    retry_on: Annotated[RetryOn, LOWER] | None = None
    engine: Annotated[JobEngine, LOWER] | None = None
    """`local`: in one process without Spark; `auto`: as the service chooses. The pipeline may name another one."""
    driver_reuse: bool | None = None
    """Whether its executions may share a driver with Spark, one after another; true when left out at the creation."""
    publish: bool | None = None
    """Whether its executions publish their rows unless one says otherwise; true when left out at the creation."""
    enabled: bool | None = None
    """Whether it may be executed; true when left out at the creation."""
    partitions: PartitionsField | None = None
    """The parts of its dataset that an execution makes one of: a dimension or a list of two; an empty list is none."""

    pools: Annotated[list[PoolName], Field(max_length=20), AfterValidator(_drop_repeated)] | None = None
    """Names of pools in which each of its executions needs a place while it runs."""

    def to_columns(self) -> dict[str, Any]:
        columns = super().to_columns()
        if self.partitions is not None:
            columns["partitions"] = dump_partitions(self.partitions)
        return columns


class JobUpdate(JobSettings):
    model_config = example(
        {"name": "Titles", "agentId": "01a1fe8d-908f-7f00-a12a-dce377429a92", "parameters": {"CITY": "Paris"}}
    )
    clearable: ClassVar[frozenset[str]] = frozenset(
        {"agent_id", "input_dataset_id", "cloud_credential_id", "scheduled_time"}
    )

    agent_id: str | None = None
    input_dataset_id: str | None = None
    cloud_credential_id: str | None = None
    cloud_credential_ids: list[str] | None = None


class JobCreate(JobUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


class StoredJob(BaseModel):
    """The columns of a job that answers show."""

    model_config = ConfigDict(alias_generator=to_camel, use_attribute_docstrings=True)

    id: str
    """Id of the job."""
    name: str
    slug: str
    """Its table's name in SQL."""
    description: str | None
    project_id: str
    agent_id: str | None
    input_dataset_id: str | None
    output_dataset_id: str | None
    """Id of the dataset that its executions write; null before the first one."""
    cloud_credential_id: str | None
    cloud_credential_ids: list[str]
    parameters: dict[str, Any]
    tags: dict[str, str]
    """Tags of its asset and runs in Dagster."""
    owners: list[str]
    """E-mail addresses and teams that Dagster shows as the owners of its asset."""
    depends_on: list[str]
    """Names of the jobs of its project that it depends on, besides those whose output it reads."""
    freshness: dict[str, Any]
    """How old its newest rows may be, as `maxAge`; empty for any age."""
    trigger: dict[str, Any]
    """What executes it besides schedules: `onNewInput`."""
    latest_execution_id: str | None
    """Id of its newest execution; null before the first one."""
    scheduled_time: datetime | None
    max_retries: int
    retry_backoff_seconds: int
    timeout_seconds: int
    retry_on: str
    engine: str
    """What runs its executions, unless the pipeline says so; `auto` is the service's choice."""
    driver_reuse: bool
    """Whether its executions may share a driver with Spark, unless its project or the service says no."""
    publish: bool
    """Whether its executions publish their rows, unless one says otherwise."""
    enabled: bool
    """Whether it may be executed."""
    partitions: list[TimeDimension | ValuesDimension]
    """The dimensions of its partitions; empty for a job whose executions make the whole dataset."""
    pools: list[str]
    """Names of the pools in which its executions need a place."""
    created_at: datetime
    updated_at: datetime
