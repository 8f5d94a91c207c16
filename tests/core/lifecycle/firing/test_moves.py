"""Schedules in packages."""

from __future__ import annotations

from core.integrations.declarations import service
from core.integrations.declarations.export import export_declaration
from tests.core.lifecycle.firing.conftest import Timed
from tests.support.shop import Shop

FIELDS = {"timezone": "Europe/Berlin", "overlap": "queue", "missed": "all", "parameters": {"CITY": "Rome"}}


def test_a_package_carries_the_schedule(timed: Timed, other_shop: Shop) -> None:
    timed.set(**FIELDS, job_id=timed.shop.job_id, enabled=False)
    caller, database = Timed(other_shop).caller, timed.shop.database
    with database.read() as session:
        declaration = export_declaration(session, timed.caller)
    service.apply(database, timed.shop.settings, caller, declaration, complete=True)
    assert service.apply(database, timed.shop.settings, caller, declaration, complete=True).changes == []
    schedule = Timed(other_shop).read().schedule
    assert {name: getattr(schedule, name) for name in FIELDS} == FIELDS
    assert (schedule.job_id, schedule.enabled) == (other_shop.job_id, False)
    with database.read() as session:
        assert export_declaration(session, caller) == declaration
