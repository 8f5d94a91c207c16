"""Dates in headers (RFC 9110, section 5.6.7)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def http_date(text: str) -> datetime | None:
    """The moment that `text` names, in UTC where it names no zone; None for what is no date."""
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # a number of digits that no date has overflows
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
