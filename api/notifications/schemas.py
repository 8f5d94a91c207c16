"""Notification rules as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from api.kit.schemas import Record


class RuleRecord(Record):
    id: str
    """Id of the rule."""
    project_id: str
    name: str
    """Its name, in paths and in `spindle notify test`."""
    job_id: str | None
    """The one job that it is about; null for all jobs of the project."""
    cloud_credential_id: str
    """The target: a credential of SLACK, TEAMS, DISCORD, NTFY, SMTP or WEBHOOK."""
    events: list[str]
    """`failed`, `recovered`, `warned`, `late`, `degraded`."""
    begin_by: str | None
    """When each job must have begun; null for never."""
    end_by: str | None
    """When each job must have completed; null for never."""
    timezone: str
    min_row_share: float | None
    """The share of the rows before, below which it tells of an execution; null or 0 for never."""
    max_cost: float | None
    """The cost above which it tells of an execution; null or 0 for never."""
    recipients: list[str]
    """Mail addresses, where the target is a mail server."""
    template: dict[str, Any]
    """The body for a WEBHOOK; empty for the usual one."""
    pause_seconds: int
    """After a message, what happens in so many seconds becomes one message."""
    enabled: bool
    """Whether messages are sent."""
    failing_since: datetime | None
    """When its failures began; null while it succeeds."""
    created_at: datetime
    updated_at: datetime
