"""The completion payload of the REST specification: a report of a driver, or of another client."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from core.data.datasets.repository import NewVersion
from core.errors import BadInput, Detail
from core.infra.validation import exceeds_depth, replace_unstorable
from core.tables.executions import COUNTS
from pipelines.contract.report import ColumnTypes, Int64, RunReport

MAX_DEPTH = 64
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
CLOCK_SKEW = timedelta(days=1)
_MEASURED = ("changes", "figures")  # parts of additionalMetrics that every report may have
_COMPLETED = ("saves", "merged", "knownPages", "rejected")  # those of a report of COMPLETED
_OWN_METRICS = ("attempt", "errorCode", "progress", "output", *_MEASURED, *_COMPLETED)
OUTPUT_TEXTS = ("output_dataset_path", "output_dataset_format", "output_dataset_schema")
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]


def _add_timezone(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:  # in UTC it is not in the years 1 to 9999; `drop_impossible` drops it
        return value.replace(tzinfo=UTC)


def _to_upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


Time = Annotated[datetime, AfterValidator(_add_timezone)]


_COLUMNS = TypeAdapter[tuple[tuple[str, str], ...]](ColumnTypes)


class CompletionPayload(BaseModel):
    """A report of RUNNING (at the start, then as heartbeat), COMPLETED or FAILED. Unknown fields are ignored.

    `additionalMetrics` may have `attempt` (the fencing token), `errorCode`, `progress`, `saves`, `output` and `mode`.
    """

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [{"executionId": "01a1fe8d-908f-7f00-a12a-dce377429a92", "status": "RUNNING"}],
        },
    )

    job_id: str | None = None
    """Id of the job."""
    execution_id: str
    """Id of the execution, from the answer to execute."""
    spark_application_name: str | None = None
    status: Annotated[Literal["RUNNING", "COMPLETED", "FAILED"], BeforeValidator(_to_upper)]
    """RUNNING at the start and as a heartbeat, COMPLETED or FAILED at the end."""
    output_dataset_path: str | None = None
    output_dataset_format: str | None = None
    output_dataset_schema: str | None = None
    error_message: str | None = None
    """Why it failed, as a sentence."""
    started_at: Time | None = None
    """When the driver started; a time without a zone is UTC."""
    completed_at: Time | None = None
    """When it ended; a time without a zone is UTC."""
    spark_ui_url: str | None = None
    """Address of Spark's own page, http or https."""
    duration_seconds: Int64 | None = None
    records_processed: Int64 | None = None
    records_output: Int64 | None = None
    output_file_size_bytes: Int64 | None = None
    total_cpu_time_seconds: Int64 | None = None
    driver_memory_used_bytes: Int64 | None = None
    executor_memory_used_bytes: Int64 | None = None
    partitions_count: Int32 | None = None
    executor_count: Int32 | None = None
    error_count: Int32 | None = None
    warning_count: Int32 | None = None
    additional_metrics: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _clean(cls, value: Any) -> Any:
        if exceeds_depth(MAX_DEPTH, value):
            raise ValueError(f"a report is nested in at most {MAX_DEPTH} levels")
        return replace_unstorable(value)

    @field_validator("spark_ui_url")
    @classmethod
    def _drop_other_schemes(cls, value: str | None) -> str | None:
        """Users click on the address, so only http and https are accepted."""
        try:
            return value if value and urlsplit(value).scheme in ("http", "https") else None
        except ValueError:
            return None

    @property
    def attempt(self) -> int | None:
        """The fencing token; None from clients that do not know attempts."""
        return _get_typed(self.additional_metrics, "attempt", int)

    @property
    def error_code(self) -> str | None:
        """Why it failed, for retries."""
        return _get_typed(self.additional_metrics, "errorCode", str)

    @property
    def progress(self) -> dict[str, Any] | None:
        return cast(dict[str, Any] | None, _get_typed(self.additional_metrics, "progress", dict))

    def drop_impossible(self, now: datetime) -> tuple[Self, list[str]]:
        """Return the report without negative counts and impossible times, and a warning for each of them.

        Its state matters more than they do.
        """
        latest = now + CLOCK_SKEW
        counts = {name: value for name in COUNTS if (value := getattr(self, name)) is not None}
        times = {name: at for name in ("started_at", "completed_at") if (at := getattr(self, name)) is not None}
        dropped = {name: value for name, value in counts.items() if value < 0}
        dropped |= {name: at.isoformat() for name, at in times.items() if not EARLIEST <= at <= latest}
        if counts.get("duration_seconds", 0) > (latest - EARLIEST).total_seconds():
            dropped["duration_seconds"] = counts["duration_seconds"]
        warnings = [f"'{to_camel(name)}' was ignored: {value} is impossible." for name, value in dropped.items()]
        return (self.model_copy(update=dict.fromkeys(dropped)) if dropped else self), warnings

    def parse_columns(self) -> tuple[tuple[str, str], ...]:
        """Return the output's columns; raise BadInput when the schema is no JSON list of names and types."""
        try:
            return _COLUMNS.validate_json(self.output_dataset_schema or "[]")
        except ValidationError as error:
            sentence = "'outputDatasetSchema' is not a JSON list of {name, type}."
            raise BadInput(sentence, [Detail("outputDatasetSchema", sentence)]) from error

    @cached_property
    def report(self) -> RunReport:
        """The report of the run; raises BadInput for a part of another form.

        Only parts that the service acts on are read: other clients send metrics of any form under the other names.
        """
        names = _MEASURED
        if self.status == "COMPLETED":
            names += (*_COMPLETED, "output") if self.output_dataset_path else _COMPLETED
        additional = self.additional_metrics or {}
        try:
            return RunReport.model_validate(
                {name: additional[name] for name in names if additional.get(name) is not None}
            )
        except ValidationError as error:
            path = f"additionalMetrics.{error.errors()[0]['loc'][0]}"
            sentence = f"'{path}' is not of the expected form."
            raise BadInput(sentence, [Detail(path, sentence)]) from error

    def get_metrics(self) -> dict[str, Any]:
        """Return the metrics that the execution stores: the application, the counts and the free-form parts."""
        counts = {name: getattr(self, name) for name in COUNTS}
        additional = self.additional_metrics or {}
        free = {key: value for key, value in additional.items() if key not in _OWN_METRICS}
        name = self.spark_application_name or None
        parts = {"spark_application_name": name, "additional": free or None, "metrics": self.metrics}
        return {name: value for name, value in (counts | parts).items() if value is not None}

    def get_output_texts(self, foreign: NewVersion | None = None) -> dict[str, str]:
        """Return path, format and schema of the output as the execution stores them.

        Those of another Spark's files are what was read from them.
        """
        texts = {name: text for name in OUTPUT_TEXTS if (text := getattr(self, name)) is not None}
        if foreign is not None:
            texts["output_dataset_format"] = foreign.format
            texts["output_dataset_schema"] = json.dumps(list(foreign.columns), ensure_ascii=False)
        return texts


def _get_typed(values: dict[str, Any] | None, name: str, kind: type[Any]) -> Any:
    value = (values or {}).get(name)
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
