"""The progress of a run, as its driver reports it, and the service stores and answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel


class ReportPart(BaseModel):
    """A part of a report: camelCase in JSON, in which the fields that are not set are left out, and unknown ones kept.

    In answers of the REST API, every field is present.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="allow",
        json_schema_serialization_defaults_required=True, use_attribute_docstrings=True,
    )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the fields that were set."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class SelectorProgress(ReportPart):
    column: str | None = None
    """Column that the selector fills; null for a selector of segments or links."""
    selector: str | None = None
    """Text of the selector, or of the prompt for links; null where the method needs none."""
    pages: int = 0
    """Pages that it was applied to."""
    empty: int = 0
    """Pages of these on which it found nothing."""
    unfit: int = 0
    """Values that it found and that do not fit the type of its column; the column is null there."""


class StageProgress(ReportPart):
    key: str
    """Name of the stage in this execution, such as `s02_extract`."""
    title: str = ""
    """Name of the stage for people."""
    state: str = "PENDING"
    """PENDING, RUNNING, COMPLETED or FAILED."""
    rows: int = 0
    """Rows that the stage has made so far."""
    pages: int = 0
    """Pages that it has fetched."""
    errors: int = 0
    """Pages and rows with an error."""
    seconds: float = 0
    """Time that it has taken, in seconds."""
    selectors: list[SelectorProgress] = Field(default_factory=list[SelectorProgress])
    """Its selectors, with the pages on which they found nothing."""
    warnings: list[str] = Field(default_factory=list[str])
    """Suspicious findings about its rows, as sentences, at its end."""


class StageReport(StageProgress):
    """The progress of a stage with its columns and first rows, which the log of its Dagster step shows."""

    cached: int = 0
    """Pages of earlier executions that it has used without a request."""
    columns: list[dict[str, str]] = Field(default_factory=list[dict[str, str]])
    preview: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])

    def without_rows(self) -> StageProgress:
        """Return only the progress."""
        return StageProgress(**self.model_dump(exclude={"columns", "preview"}, exclude_unset=True))


class CheckOutcome(ReportPart):
    check: str = ""
    """The check of the output, as the pipeline has it."""
    severity: str = "error"
    """`error` when its failure fails the execution, else `warn`."""
    passed: bool = False
    """Whether the output passed it."""
    message: str | None = None
    """Why not; null when it passed."""
    figures: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What was measured, such as `rows`."""

    @property
    def fails(self) -> bool:
        """Whether it fails the execution."""
        return not self.passed and self.severity != "warn"


class RequestCount(ReportPart):
    """The pages with one status, and one reason if they have failed."""

    status: int | None = None
    """Status of the server's answer; null without one."""
    reason: str | None = None
    """Why the pages could not be fetched, for example `http-status`, `blocked` or `timeout`; null if they were."""
    pages: int = 0
    """Number of the pages."""
    retries: int = 0
    """Requests for them that were repeated."""
    cached: int = 0
    """Pages of these that took no request."""
    bytes: int = 0
    """Size of their bodies as they were sent."""
    seconds: float = 0
    """Time of the requests together, in seconds."""
    addresses: list[str] = Field(default_factory=list[str])
    """The first addresses of failed pages."""


class Failure(ReportPart):
    """A page that could not be fetched."""

    model_config = ConfigDict(extra="ignore")

    url: str
    """Its address, with asterisks in place of secrets."""
    status: int | None
    """Status of the server's answer; null without one."""
    reason: str
    """Why, as a code.

    One of `http-status`, `blocked`, `robots`, `refused`, `invalid-address`, `redirect`, `timeout`, `unknown-host`,
    `certificate`, `too-large`, `unreadable`, `action`, `file`, `connection` and `other`; `unread` is a page that was
    fetched, and whose values no selector and no model has found.
    """
    message: str
    """Why, as a sentence."""
    stage: str
    """Key of the stage that requested it, for example `s02_wgetJoin`."""
    line: int | None
    """Line of that stage in the pipeline."""
    attempts: int
    """Number of the requests for it; 0 if no request was sent."""


class FailedPage(ReportPart):
    url: str
    """Address of the page."""
    reason: str = ""
    """Why it could not be fetched."""


class ModelCalls(ReportPart):
    """Calls of the language model with their cost."""

    calls: int = 0
    """Calls of the language model."""
    tokens_in: int = 0
    """Tokens that it has read."""
    tokens_out: int = 0
    """Tokens that it has written."""
    cost: float = 0
    """The most that the calls have cost, in US dollars."""


class ModelProgress(ModelCalls):
    """The means that served pages in stages like iextract, and the cost of the language model."""

    pages: dict[str, int] = Field(default_factory=dict[str, int])
    """Pages by the means that served them: `metadata`, `selector` (proven, no call), `model` or `none`."""
    selectors: dict[str, int] = Field(default_factory=dict[str, int])
    """Pages that each of the proven selectors has read, by its id."""
    hosts: dict[str, ModelCalls] = Field(default_factory=dict[str, ModelCalls])
    """The calls by host."""


class Progress(ReportPart):
    fraction: float = 0
    """Completed fraction of the stages, 0 to 1."""
    start_seconds: float = 0
    """Time that Spark took to start, in seconds."""
    stages: list[StageProgress] = Field(default_factory=list[StageProgress])
    """The stages in order; empty before the driver has planned them."""
    checks: list[CheckOutcome] = Field(default_factory=list[CheckOutcome])
    """Outcomes of the pipeline's checks of its output; empty before its end."""
    requests: list[RequestCount] = Field(default_factory=list[RequestCount])
    """The pages by status and reason, the most frequent first."""
    model: ModelProgress | None = None
    """Calls and hits of stages that ask about pages; null without such stages."""
    failed_pages: list[FailedPage] = Field(default_factory=list[FailedPage])
    """Some of the pages that could not be fetched, at most 20; `…/failures` has the others."""

    @classmethod
    def from_report(cls, stored: Mapping[str, Any]) -> Progress:
        """Return the progress that was reported; none where a report was malformed, since clients send them too."""
        try:
            return cls.model_validate(stored)
        except ValidationError:
            return cls()
