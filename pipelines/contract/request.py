"""The request of a run: the input of an attempt, as JSON. The service writes it, the driver reads it.

It holds no secrets: credentials and the execution's token are in the driver's environment. For a pod, whose request is
in a Secret, Spark's settings have the key of its page. Dataclasses among its parts are what the runners work with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator
from pydantic.alias_generators import to_camel

from pipelines.errors import RunError
from pipelines.language.engines import EngineName, Growth
from pipelines.language.parameters import Value
from pipelines.models.budget import Allowance
from pipelines.models.options import ModelOptions
from pipelines.page_cache.options import Replay

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


@dataclass(frozen=True, slots=True)
class Files:
    """Physical files of a path in a pipeline; `format` is None for local files, whose stage decides it.

    `snapshot` is that of a table's version, and `version` the number of a dataset's, for the log. Files in folders for
    values of the columns `partition_by` need the dataset's `columns`, since the types of those values are not in the
    files. Of a table, only the rows with the values `partition` of columns are read.
    """

    paths: tuple[str, ...]
    format: str | None = None
    snapshot: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    partition_by: tuple[str, ...] = ()
    partition: tuple[tuple[str, str], ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The dataset that the output or a save stage of a run writes a version of, as it is at the launch.

    `location` is the folder of a table, `snapshot` its published version, which may be `restored` from an earlier one;
    `writers` are other executions that may be writing it, and `listed_at` is when these were listed, in milliseconds
    since 1970. The others are of the current `version` of a dataset that `exists`: those of its `rows`, if known, that
    the run replaces, the folders `paths` of its files where rows are merged into them, and that of the pages which the
    job knows. Rows of a partition `fits_types` of the others, which stay and in whose columns they are written.
    """

    location: str | None = None
    exists: bool = False
    format: str | None = None
    snapshot: str | None = None
    restored: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    partition_by: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    listed_at: int | None = None
    version: str | None = None
    rows: int | None = None
    paths: tuple[str, ...] = ()
    known_pages: str | None = None
    fits_types: bool = False


VERSION = 1
"""Version of the request. Raise it with a change that a driver of the version before would misunderstand."""
OUTPUT = ""  # the output's key among the targets of a run
GIVEN_ROWS = "rows://"  # the key, among the inputs of a run, of the rows that its request gave
REJECTED_FOLDER = "rejected"  # beside the numbered folders of saves
_TABLE_SCHEME = "table://"


def make_table_key(name: str) -> str:
    """Return the key, among the inputs of a run, of a dataset that a stage reads by name; paths have other keys."""
    return _TABLE_SCHEME + name


def get_input_name(key: str) -> str:
    """Return the path or name, as the pipeline has it, of an input's key."""
    return key.removeprefix(_TABLE_SCHEME)


@dataclass(frozen=True, slots=True)
class KnownPagesPlace:
    """Folders of a job's known pages: the current one, if any, and the one that this execution writes.

    The digests of addresses are keyed by the `job`, so that those of different jobs cannot be compared.
    """

    job: str
    folder: str
    earlier: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointFolders:
    """Folders for the rows of cache and store stages: the run's own, and those of earlier attempts, the newest first.

    Only checkpoints with the same `digest` of pipeline, parameters and engine are read.
    """

    folder: str
    digest: str = ""
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of an execution's plan: the pass that it is in, from 1, and its line in the pipeline's text.

    Its title has the names of secrets in place of their values. It `runs_script` where an action of the pipeline's
    author does in pages.
    """

    key: str
    title: str
    pass_number: int = 1
    line: int | None = None
    runs_script: bool = False

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.title.partition(" ")[0]


class SpecPart(BaseModel):
    """A part of the request; keys are camelCase in JSON, and unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class OutputSpec(SpecPart):
    """Folders that only this attempt writes: the output, and below `saves` a folder per save stage.

    `files` is the folder for downloaded files of all attempts, `kept` that of the organization's executions with its
    limit, `failures` the file that lists failed pages, and
    `known_pages` the folder of the pages which the job knows afterwards.
    """

    path: str
    saves: str | None = None
    files: str | None = None
    kept: str | None = None
    kept_bytes: int = 0
    failures: str | None = None
    known_pages: str | None = None


class WebhookSpec(SpecPart):
    """Address of the completion webhook."""

    url: str


class FetchSpec(SpecPart):
    """Networks that pages may be fetched from although they are not public, the service's own hosts and ports, and the
    operator's contact for the User-Agent.
    """

    allow_networks: tuple[str, ...] = ()
    own_endpoints: tuple[tuple[str, int], ...] = ()
    contact: str | None = None


class PageCacheSpec(SpecPart):
    """The page cache of the organization; pages stored after `trusted_since` are this execution's own.

    The folder `used` lists the pages that this attempt uses. With `replay`, it has the pages of an earlier execution.
    """

    folder: str
    keep_seconds: PositiveFloat
    max_bytes: PositiveInt
    trusted_since: AwareDatetime | None = None
    used: str | None = None
    replay: Replay | None = None


class SparkSpec(SpecPart):
    """Spark's master and settings, and the Java libraries that the session needs (pipelines/spark/jars.py)."""

    master: str = "local[*]"
    conf: dict[str, str] = Field(default_factory=dict[str, str])
    libraries: tuple[str, ...] = ()


class PodsSpec(SpecPart):
    """The settings of the service that a project or a job has chosen for the pods of an execution."""

    kubernetes_driver_cpu: str | None = None
    kubernetes_driver_memory: str | None = None
    kubernetes_executors: PositiveInt | None = None
    kubernetes_dynamic_allocation: bool | None = None
    kubernetes_executor_cpu: str | None = None
    kubernetes_node_selector: tuple[tuple[str, str], ...] | None = None
    spark_driver_memory: str | None = None
    spark_executor_memory: str | None = None


class RunRequest(SpecPart):
    """The input of one attempt of an execution.

    `targets` are by the path of the save stage; that of the output has an empty path. `arguments` are those that set no
    parameter. One that does not publish writes only its output. `credentials` maps environment variables to ids of
    credentials; of these, `public_variables` hold no secrets. `packages` is the folder of those that row transforms may
    import, `plugins` are those with uploaded plugins, and `engine_folders` those of a build of the engine other than
    the service's. A run for a partition adds the columns `partition` to its rows. `engine` is what the job or the
    service wants. A driver that `begins_with_spark` may have a spare's session, and serves another execution afterwards
    where it `reuses_driver`; others use Spark where they need it, and before that have at most `memory_bytes`.
    `scratch` is a folder in a bucket, for tasks on other machines, `event_log` the file for Spark's event log, and
    `selectors` the folder of the organization's proven selectors.
    """

    version: int = VERSION
    execution_id: str
    job_id: str
    project_id: str
    organization_id: str
    job_name: str
    attempt: int
    pipeline_yaml: str
    parameters: dict[str, Value] = Field(default_factory=dict[str, Value])
    steps: tuple[PlannedStep, ...] = ()
    arguments: tuple[str, ...] = ()
    row_transforms: dict[str, str] = Field(default_factory=dict[str, str])
    isolate_transforms: bool = True
    packages: str | None = None
    plugins: tuple[str, ...] = ()
    engine_folders: tuple[str, ...] = ()
    credentials: dict[str, str] = Field(default_factory=dict[str, str])
    public_variables: tuple[str, ...] = ()
    limit: int | None = None
    publishes: bool = True
    partition: dict[str, str] = Field(default_factory=dict[str, str])
    past: tuple[Figures, ...] = ()
    accepted_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    output: OutputSpec
    checkpoints: CheckpointFolders | None = None
    inputs: dict[str, Files] = Field(default_factory=dict[str, Files])
    targets: dict[str, Target] = Field(default_factory=dict[str, Target])
    local_folders: tuple[str, ...] = ()
    webhook: WebhookSpec | None = None
    heartbeat_seconds: PositiveFloat = 10
    fetch: FetchSpec = FetchSpec()
    pages: PageCacheSpec | None = None
    selectors: str | None = None
    model: ModelOptions | None = None
    allowance: Allowance | None = None
    scratch: str | None = None
    event_log: str | None = None
    spark: SparkSpec = SparkSpec()
    pods: PodsSpec = PodsSpec()
    engine: EngineName = EngineName.AUTO
    begins_with_spark: bool = False
    memory_bytes: PositiveInt | None = None
    reuses_driver: bool = True
    growth: Growth = Growth()
    preview_rows: int = 20

    @model_validator(mode="before")
    @classmethod
    def _check_version(cls, values: Any) -> Any:
        """Raise RunError for a later version, before its other fields are read."""
        version = cast("dict[str, Any]", values).get("version") if isinstance(values, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise RunError(
                f"the request of this execution has version {version}, and this driver reads {VERSION} or earlier: "
                "it was written by a later Spindle, so run the execution with that"
            )
        return values

    @property
    def has_own_process(self) -> bool:
        """Whether the driver is a new process, which serves nothing else: its code is not that of other drivers."""
        return bool(self.plugins or self.engine_folders)

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, indent=2)


def read_request(path: Path) -> RunRequest:
    return RunRequest.model_validate_json(path.read_bytes())


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of the checks of one run: the rows, and the share of rows with a value by checked column."""

    rows: Int64
    filled: Mapping[str, float] = field(default_factory=dict[str, float])
