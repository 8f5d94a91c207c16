"""The switch of a schedule here and in Dagster's UI."""

from __future__ import annotations

from core.definitions.schedules import service as schedules
from core.definitions.schedules.models import ScheduleCreate
from core.definitions.schedules.switches import agree_on_switches, has_new_switch
from tests.core.lifecycle.firing.conftest import Timed


def test_a_schedule_with_a_name_has_a_switch_of_its_own(timed: Timed) -> None:
    database, project_id = timed.shop.database, timed.shop.project_id
    timed.set(cron_schedule="")
    with database.write() as session:
        new = ScheduleCreate(name="nightly", cron_schedule="@daily")
        schedules.create(session, timed.caller, project_id, new)
    assert has_new_switch(database)
    assert agree_on_switches(database, {"shop__nightly": True}) == {}
    assert not has_new_switch(database)
    assert agree_on_switches(database, {"shop__nightly": False}) == {}  # turned off in Dagster
    with database.read() as session:
        nightly = schedules.get(session, timed.caller, project_id, "nightly").value
    assert (nightly.schedule.enabled, list(nightly.next_ticks), timed.read().schedule.enabled) == (False, [], True)


def test_whichever_switch_was_turned_last_holds(timed: Timed) -> None:
    database = timed.shop.database

    def is_enabled() -> bool:
        return timed.read().schedule.enabled

    assert has_new_switch(database)
    assert agree_on_switches(database, {"shop": False}) == {"shop": True}  # a new schedule wins over an old state
    assert agree_on_switches(database, {"shop": True}) == {}
    assert not has_new_switch(database)
    assert agree_on_switches(database, {"shop": False}) == {}  # turned off in Dagster
    assert not is_enabled()
    assert timed.read().next_ticks == []
    timed.set(enabled=True)
    assert agree_on_switches(database, {"shop": False}) == {"shop": True}
    assert agree_on_switches(database, {"shop": False}) == {"shop": True}  # the launcher died before it turned it
    assert agree_on_switches(database, {"shop": True, "unknown": True}) == {}
    assert is_enabled()
    assert agree_on_switches(database, {}) == {}
    timed.set(enabled=False)
    timed.set(enabled=True)
    assert agree_on_switches(database, {"shop": True}) == {}
    timed.set(enabled=False)
    assert agree_on_switches(database, {"shop": False}) == {}
    assert not is_enabled()
