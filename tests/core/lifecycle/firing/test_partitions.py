"""Ticks of jobs with partitions: the period that has just closed, also while others are executed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.core.lifecycle.firing.conftest import MONDAY, Timed

PIPELINE = """\
fetch: {url: "http://127.0.0.1/?day=${DAY}"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""
DAY = {"by": "day", "start": "2027-02-01", "timezone": "Europe/Rome", "parameter": "DAY"}
COUNTRY = {"values": ["it", "fr"], "parameter": "COUNTRY"}


def split(timed: Timed, *dimensions: dict[str, Any]) -> None:
    timed.shop.write_pipeline(PIPELINE if len(dimensions) == 1 else PIPELINE.replace("${DAY}", "${DAY}${COUNTRY}"))
    timed.shop.change_job(partitions=[*dimensions])


def test_a_tick_executes_the_period_that_has_just_closed(timed: Timed) -> None:
    split(timed, DAY)
    timed.shop.submit(partition="2027-02-01", tick_at=MONDAY)
    for hours in (-2, 0):
        timed.rewind(MONDAY + timedelta(hours=hours))
        timed.fire(MONDAY + timedelta(hours=hours))
    assert [each.partition for each in timed.executions()] == ["2027-02-01", "2027-02-27", "2027-02-28"]
    timed.fire(MONDAY + timedelta(hours=1))
    (job,) = timed.ticks()[-1].jobs
    assert (job.state, job.code) == ("REFUSED", "partition-running")


def test_a_tick_of_a_job_with_values_needs_the_value(timed: Timed) -> None:
    split(timed, DAY, COUNTRY)
    timed.fire(MONDAY)
    (job,) = timed.ticks()[-1].jobs
    assert (job.state, job.code) == ("REFUSED", "partition-required")
    timed.set(parameters={"COUNTRY": "fr"})
    timed.rewind(MONDAY + timedelta(hours=1))
    timed.fire(MONDAY + timedelta(hours=1))
    assert [each.partition for each in timed.executions()] == ["fr|2027-02-28"]
