"""The period that a request asks for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from core.metrics.periods import Period
from core.tables import now

LONGEST = 64


def _period(
    start_date: Annotated[
        str | None,
        Query(
            alias="startDate",
            max_length=LONGEST,
            description="Date (from its first moment in UTC) or time, ISO 8601; 30 days before the end when left out.",
            examples=["2026-10-01"],
        ),
    ] = None,
    end_date: Annotated[
        str | None,
        Query(
            alias="endDate",
            max_length=LONGEST,
            description="Date (the whole day in UTC) or time (up to it), ISO 8601; now when left out.",
            examples=["2026-10-31"],
        ),
    ] = None,
) -> Period:
    return Period.of(start_date, end_date, now())


PeriodOf = Annotated[Period, Depends(_period)]
