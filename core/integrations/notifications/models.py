"""The fields of a notification rule that a request sets."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from core.infra.changes import WHOLE, Changes, example
from core.infra.mail import ADDRESS
from core.lifecycle.executions.notices import EVENTS

MAX_PAUSE = 86400
NoticeEvent = Annotated[str, Field(json_schema_extra={"enum": [*EVENTS]})]
Recipient = Annotated[str, Field(pattern=f"^{ADDRESS}$", max_length=254)]


class RuleSettings(Changes):
    """The fields that do not refer to other records."""

    clearable: ClassVar[frozenset[str]] = frozenset({"begin_by", "end_by", "job_id"})

    events: list[NoticeEvent] | None = None
    """`failed`, `recovered`, `warned` (a check), `late` (not fresh any more), `degraded` (the service)."""
    begin_by: str | None = None
    """A time such as `06:30`, or a cron expression: each job must have begun by then, that day."""
    end_by: str | None = None
    """A time such as `07:00`, or a cron expression: each job must have completed by then, that day."""
    timezone: str | None = None
    """Of `beginBy` and `endBy`; UTC when left out at the creation."""
    min_row_share: Annotated[float, Field(ge=0, le=1000, strict=False)] | None = None
    """Tell of an execution with fewer rows than this share of the one before; 0 is never."""
    max_cost: Annotated[float, Field(ge=0, strict=False)] | None = None
    """Tell of an execution that costs more, in the currency of the bills; 0 is never."""
    recipients: Annotated[list[Recipient], Field(max_length=50)] | None = None
    """Mail addresses, where the target is a mail server."""
    template: dict[str, Any] | None = None
    """The body for a WEBHOOK, in whose texts `${title}`, `${text}` and `${link}` are filled in."""
    pause_seconds: Annotated[Annotated[int, Field(ge=0, le=MAX_PAUSE)], WHOLE] | None = None
    """After a message, what happens in so many seconds becomes one message; 300 when left out at the creation."""
    enabled: bool | None = None
    """Whether messages are sent; true when left out at the creation."""


class RuleUpdate(RuleSettings):
    model_config = example({"events": ["failed", "recovered", "late"], "endBy": "07:00", "timezone": "Europe/Berlin"})

    cloud_credential_id: str | None = None
    """The target: a credential of SLACK, TEAMS, DISCORD, NTFY, SMTP or WEBHOOK."""
    job_id: str | None = None
    """The one job that it is about; an empty text means all jobs of the project."""


class RuleCreate(RuleUpdate):
    model_config = example(
        {"name": "on_call", "cloudCredentialId": "01a1fe8d-908f-7f00-a12a-dce377429a92", "events": ["failed"]}
    )

    name: str
    """Small letters, digits and single `_`. It stays."""
    cloud_credential_id: str  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
    """The target: a credential of SLACK, TEAMS, DISCORD, NTFY, SMTP or WEBHOOK."""
