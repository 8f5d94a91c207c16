"""Bodies of the requests and answers about executions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.executions.links import ExecutionLinks
from api.kit.schemas import Body, Record
from core.definitions.schedules.models import find_misspelled_fields
from core.errors import Detail
from core.infra.changes import LOWER, WHOLE, example
from core.lifecycle.executions.failures import FailedPages
from core.lifecycle.executions.leftovers import get_output_path
from core.lifecycle.executions.payload import OUTPUT_TEXTS
from core.lifecycle.executions.repository import Status, get_engine
from core.tables import Execution, ExecutionAttempt
from core.tables.states import State
from pipelines.contract.progress import Failure, Progress, RequestCount
from pipelines.contract.report import Changes
from pipelines.contract.request import GIVEN_ROWS, get_input_name

CLUSTER = "local"

Queue = Annotated[
    bool, Query(description="Where the project or a pool of the job is full, wait in order instead of a 429.")
]


def _to_upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


Level = Annotated[Literal["DEBUG", "INFO", "WARN", "ERROR"], BeforeValidator(_to_upper)]
PodType = Annotated[
    Literal["driver", "executor"],
    LOWER,
    Query(alias="podType", description="Whose log: the driver's, or the executors'."),
]

Attempt = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="Number of the attempt; the current one by default.")
]

ExecutorIndex = Annotated[
    str | None,
    Query(
        alias="executorIndex",
        description="With `podType=executor`, the lines of this executor only: 0 is the first one.",
    ),
]


class ExecuteRequest(Body):
    """Options of one execution; `parameters.limit` limits its output rows.

    Fields that are unknown here are ignored, as everywhere: clients send hints of their own. One whose name is similar
    to one of these is an error, unless SPINDLE_UNKNOWN_PARAMETERS is `warn`.
    """

    model_config = example({"parameters": {"limit": 100}}) | ConfigDict(extra="allow")

    parameters: dict[str, Any] | None = None
    """Values of the pipeline's `${NAME}` by name, before those of the job and the project.

    `limit` limits the output rows.
    """
    arguments: list[str] | None = None
    """NAME=value sets a parameter like `parameters`; others are kept and named in the log."""
    cloud_credential_ids: list[str] | None = None
    cloud_credential_id: str | None = None
    limit: Annotated[int, Field(ge=0), WHOLE] | None = None
    """Largest number of output rows."""
    publish: bool | None = None
    """Whether the rows become those of the job's table, by default as the job says, also with a limit.

    `false` keeps them apart for seven days: the execution's `datasetId` names them, and SQL `project.job@executionId`.
    """

    partition: str | None = None
    """Key of the partition to make, for a job that has partitions; giving all of its parameters is the same."""

    pages_of: str | None = None
    """Id of an earlier execution of the organization, whose stored pages this one has: it sends no request.

    A page that is not among them is a failed page with the reason `not-stored`.
    """

    rows: list[Any] | None = None
    """The rows that the pipeline's load_rows begins with, up to 10,000: addresses, or objects of columns."""

    @property
    def misspelled_fields(self) -> Sequence[Detail]:
        """A problem for each field that is none of these, but has a similar name."""
        known = [to_camel(name) for name in type(self).model_fields]
        return find_misspelled_fields(self.model_extra or {}, known)

    @property
    def credential_ids(self) -> Sequence[str]:
        return self.cloud_credential_ids or ([self.cloud_credential_id] if self.cloud_credential_id else [])


class Submission(Record):
    execution_id: str
    status: str
    """SUBMITTED."""
    message: str
    """What happened, as a sentence."""
    cluster_id: str
    """Where it runs; `local` is this machine."""
    success: bool
    """True; what is not accepted is answered with an error."""


class ExecutionStatus(Record):
    execution_id: str
    status: str
    """PENDING, RUNNING, COMPLETED or FAILED."""
    state: str
    """The same in detail: also QUEUED while it waits for a slot or its next attempt, and CANCELLED."""
    started_at: datetime | None
    """When the driver started; null before."""
    completed_at: datetime | None
    """When it ended; null before."""
    execution_time_seconds: int | None
    """Whole seconds since the start, up to the end; null before the start."""
    error_message: str | None
    """Why it failed; null unless it has."""
    spark_ui_url: str | None
    """Address of Spark's own page: that of the driver on this machine, or one here, which takes the caller's key.

    A running pod has one here, and so has an execution that has ended where the service has a history server. Null
    where Spark was not used.
    """
    executor_pod_count: int | None
    """Largest number of executors at one time beside the driver, 0 when it runs all tasks itself; null when unknown."""
    spark_application_name: str | None
    progress: Progress
    """Progress of its stages."""
    details_removed_at: datetime | None
    """When a cleanup removed stages and requests of its progress, and its driver; null while they are kept."""
    waits_for: list[str]
    """What has no room for it while it is QUEUED: `project` or `organization`, by their limits, and `pool NAME`."""


class InputVersion(Record):
    """A version of a dataset that an execution reads; it was chosen when the execution was accepted."""

    name: str
    """The path or name by which the pipeline reads it."""
    dataset_id: str
    version: int
    """Its number in the dataset."""


class ExecutionRecord(ExecutionStatus):
    """`outputDataset…` are place, format and columns (JSON) of the output, as its completion reported them."""

    job_id: str
    project_id: str
    task_id: str | None
    """Id of its task; null after the task was deleted."""
    attempt: int
    """Number of the current attempt, from 1; a retry begins the next one."""
    max_retries: int
    retries: int
    """Attempts that followed a failed one by themselves, since it was accepted or retried by hand."""
    retry_at: datetime | None
    """When the next attempt begins, if a slot is free then; null unless it waits for it."""
    error_code: str | None
    """Why it failed: see `errorCode` of its attempts."""
    engine: str
    """`local` (one process without Spark), `spark`, or `local, then spark` where it has grown over."""
    engine_reason: str | None
    """What only Spark runs in its pipeline; null where it began without Spark."""
    driver: str | None
    """Name of the current attempt's driver, which several executions may have one after another; null before."""
    driver_source: str | None
    """Where the driver comes from; null before.

    `warm` has served the organization before, `spare` was ready, `new` was started for it, and `fork` has no Spark.
    """
    waited_seconds: float | None
    """Seconds that the current attempt has waited for a driver; null before."""
    changes: Changes | None
    """Numbers of keys that were added, changed and retired in a history; null for other modes, and before the end."""
    input_versions: list[InputVersion]
    """The versions of datasets that it reads, in its retries too."""
    pages_of: str | None
    """Id of the earlier execution whose stored pages it has, without a request; null for one that fetches its own."""
    given_rows: int | None
    """Number of rows that its request gave for load_rows; null for one without any."""
    publishes: bool
    """Whether its rows become those of the job's table."""
    dataset_id: str | None
    """Id of the dataset that it published, or of the rows that it keeps apart; null before."""
    output_dataset_path: str | None
    output_dataset_format: str | None
    output_dataset_schema: str | None
    records_output: int | None
    """Number of output rows, as its completion reported it; null before."""
    trigger: str
    """What caused it: `rest`, `dagster` (its UI), `schedule`, `backfill`, `scheduledTime` of the job or task, or
    `newInput` where the job's trigger is new versions of its inputs."""
    schedule_tick: datetime | None
    """The tick of the schedule, or the scheduled time; null for other triggers."""
    schedule_name: str | None
    """The name of the schedule; null for the one without a name, and for other triggers."""
    partition: str | None
    """Key of the partition that it makes; null for a job without partitions."""
    backfill_id: str | None
    """Id of its backfill; null outside of one."""
    pools: list[str]
    """Names of the pools in which it has a place while it is PENDING or RUNNING; its job's when it was accepted."""
    dagster_run_id: str | None
    """Id of the Dagster run of the current attempt; null before it has one."""
    dagster_run_url: str | None
    """Address of that run's page in the Dagster UI."""
    created_at: datetime


class EndedExecution(ExecutionRecord):
    """An execution that has ended while its request waited; it has the fields of a submission too."""

    message: str
    """How it ended, as a sentence."""
    cluster_id: str
    success: bool
    """Whether it was completed."""
    rows: list[dict[str, Any]] | None
    """The first rows of its output, as many as `rows` asked for; null without them."""
    rows_problem: str | None
    """Why there are no rows although it has published some; else null."""


class AttemptRecord(Record):
    """One attempt of an execution."""

    attempt: int
    """Its number, from 1."""
    status: str
    """PENDING, RUNNING, COMPLETED or FAILED."""
    started_at: datetime | None
    """When its driver started; null before."""
    completed_at: datetime | None
    """When it ended; null before."""
    error_message: str | None
    """Why it failed; null unless it has."""
    error_code: str | None
    """The kind of its failure, null unless it has failed.

    `driver-lost`, `service-stopped`, `launch-failed` and `dependency-unavailable` are failures of the infrastructure.
    The others are `pipeline-failed`, `timeout`, `cancelled` and `given-up`.
    """
    run_id: str | None
    """Id of its Dagster run; null before a run has claimed it."""
    resumed_after: str | None
    """Key of the step whose rows of an earlier attempt it began with; null where it began anew."""


class Failures(Record):
    """Pages that an execution could not fetch."""

    pages: int
    """Number of all pages that failed."""
    counts: list[RequestCount]
    """The same by status and reason, the most frequent first."""
    failures: list[Failure]
    """The first pages that failed."""

    @classmethod
    def from_list(cls, found: FailedPages) -> Failures:
        return cls(pages=sum(each.pages for each in found.counts), counts=[*found.counts], failures=[*found.pages])


class Logs(Record):
    logs: list[str]
    """The lines, oldest first: time, level, event and its fields."""


def build_submission(execution: Execution) -> Submission:
    queued = execution.state == State.QUEUED
    pools = f" and a place in its pools: {', '.join(execution.pools)}" if execution.pools else ""
    waits = f"The execution waits for a slot of its project{pools}."
    message = waits if queued else "The execution was accepted."
    return Submission(execution_id=execution.id, status="SUBMITTED", message=message, cluster_id=CLUSTER, success=True)


def build_execution_status(execution: Mapping[str, Any], links: ExecutionLinks) -> ExecutionStatus:
    return ExecutionStatus(**_get_status_fields(execution, links))


def build_execution_record(execution: Mapping[str, Any], links: ExecutionLinks) -> ExecutionRecord:
    return ExecutionRecord(**_get_record_fields(execution, links))


def build_ended_execution(
    execution: Mapping[str, Any], links: ExecutionLinks, rows_problem: str | None
) -> EndedExecution:
    """Return the record without rows."""
    success = execution["state"] == State.COMPLETED
    return EndedExecution(
        **_get_record_fields(execution, links),
        message="The execution was completed." if success else execution["error_message"] or "The execution failed.",
        cluster_id=CLUSTER,
        success=success,
        rows=None,
        rows_problem=rows_problem,
    )


def build_attempt_record(attempt: ExecutionAttempt) -> AttemptRecord:
    names = set(AttemptRecord.model_fields) - {"status"}
    return AttemptRecord(status=State(attempt.state).public, **{name: getattr(attempt, name) for name in names})


def _get_status_fields(execution: Mapping[str, Any], links: ExecutionLinks) -> dict[str, Any]:
    status = Status.from_record(execution)
    names = set(ExecutionStatus.model_fields) - {"state", "progress", "spark_ui_url", "waits_for", "details_removed_at"}
    return {
        "state": execution["state"],
        "waits_for": execution["waits_for"],
        **{name: getattr(status, name) for name in names},
        "spark_ui_url": links.find_spark_page(execution),
        "progress": Progress.from_report(execution["progress"]),
        "details_removed_at": execution["details_removed_at"],
    }


def _get_record_fields(execution: Mapping[str, Any], links: ExecutionLinks) -> dict[str, Any]:
    task_id, driver = execution["task_id"], execution["driver"]
    same = ("job_id", "project_id", "pools", "publishes", "dataset_id", "trigger", "schedule_name", "created_at")
    of_partition = ("partition", "backfill_id")
    of_attempt = ("attempt", "max_retries", "retries", "retry_at", "error_code")
    return {
        **_get_status_fields(execution, links),
        **{name: execution[name] for name in (*same, *of_partition, *of_attempt)},
        **{name: execution["metrics"].get(name) for name in (*OUTPUT_TEXTS, "records_output")},
        "output_dataset_path": get_output_path(execution),
        "task_id": None if task_id is None else str(task_id),
        "engine": get_engine(execution),
        "engine_reason": execution["spark_reason"],
        "driver": driver and driver.name,
        "driver_source": driver and driver.source,
        "waited_seconds": driver and driver.waited_seconds,
        "changes": execution["metrics"].get("changes"),
        "input_versions": [
            InputVersion(name=get_input_name(key), dataset_id=read.dataset, version=read.number)
            for key, read in execution["inputs"].items()
            if read.is_published
        ],
        "pages_of": execution["pages_of"] and execution["pages_of"].execution_id,
        "given_rows": given.rows if (given := execution["inputs"].get(GIVEN_ROWS)) else None,
        "schedule_tick": execution["tick_at"],
        "dagster_run_id": execution["run_id"],
        "dagster_run_url": links.find_run_page(execution),
    }
