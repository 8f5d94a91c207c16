"""The preview of a tick names what the tick would execute, and changes nothing."""

from __future__ import annotations

from core.lifecycle.firing.previews import PREVIEW, describe_tick_preview
from core.lifecycle.firing.schedules import NO_JOBS
from core.tables import Job
from tests.core.lifecycle.firing.conftest import MONDAY, Timed


def preview(timed: Timed) -> str:
    return describe_tick_preview(timed.shop.database, timed.id, MONDAY)


def test_a_preview_names_jobs_and_parameters_and_has_no_effect(timed: Timed) -> None:
    timed.add_job("Films", parameters={"CITY": "Paris", "YEAR": 1999})
    timed.add_job("Off", enabled=False)
    options = '{"parameters": {"CITY": "Oslo"}, "arguments": ["LANGUAGE=it", "file.csv"]}'
    timed.set(parameters={"CITY": "Rome"}, execution_request_json=options)
    assert preview(timed).splitlines() == [
        f"{PREVIEW} The tick of 2027-03-01T00:00:00Z would execute:",
        'Books: CITY = "Rome", LANGUAGE = "it".',
        'Films: CITY = "Rome", LANGUAGE = "it", YEAR = 1999.',
    ]
    assert (timed.ticks(), timed.executions(), timed.read().schedule.next_tick_at) == ([], [], MONDAY)
    assert timed.fire(MONDAY).state == "FIRED"
    assert len(timed.executions()) == 2


def test_a_preview_of_a_disabled_schedule_says_so_and_records_no_tick(timed: Timed) -> None:
    timed.set(enabled=False)
    assert preview(timed).splitlines() == [
        f"{PREVIEW} The schedule is disabled. If enabled: The tick of 2027-03-01T00:00:00Z would execute:",
        "Books: no parameters.",
    ]
    timed.shop.change_project(enabled=False)
    assert "The project is disabled." in preview(timed)
    assert timed.ticks() == []


def test_a_preview_without_jobs_gives_the_reason(timed: Timed) -> None:
    with timed.shop.database.write() as session:
        session.get_one(Job, timed.shop.job_id).enabled = False
    assert preview(timed) == f"{PREVIEW} {NO_JOBS}"
