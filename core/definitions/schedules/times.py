"""Times at which a job or task is to be executed once."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from core.errors import BadInput
from core.infra.validation import format_time
from core.tables import now

_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
TOLERANCE = timedelta(minutes=1)  # of clocks, and of the request's way


def is_past(at: datetime) -> bool:
    return at < now() - TOLERANCE


def check_scheduled_time(new: datetime | None, old: datetime | None = None) -> None:
    """Raise BadInput for a new time in the past. An unchanged one is fine: clients send whole records."""
    if new is not None and new != old and is_past(new):
        sentence = (
            f"'scheduledTime' is in the past: {format_time(new)}. Write a time to come, or an empty text for none."
        )
        raise BadInput(sentence, path="scheduledTime", code="past-time")


def read_deadline(text: str) -> str:
    """Return a cron expression for a time of day; other texts are one already."""
    match = _TIME_OF_DAY.fullmatch(text.strip())
    return f"{int(match[2])} {int(match[1])} * * *" if match else text
