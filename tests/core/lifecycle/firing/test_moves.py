"""Schedules in packages and declarations."""

from __future__ import annotations

from core.integrations.declarations import service
from core.integrations.declarations.export import export_declaration
from core.integrations.declarations.models import Declaration
from core.tables import Project
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


def test_a_declaration_sets_the_schedule(timed: Timed) -> None:
    project = {"name": "Shop", "cronSchedule": "@daily", "schedule": {"timezone": "Europe/Berlin", "job": "Books"}}
    declaration = Declaration.model_validate({"projects": [project]})
    changes = service.apply(timed.shop.database, timed.shop.settings, timed.caller, declaration).changes
    assert [(each.kind, each.name) for each in changes] == [("project", "Shop"), ("schedule", "Shop")]
    assert service.apply(timed.shop.database, timed.shop.settings, timed.caller, declaration).changes == []
    state = timed.read()
    assert (state.schedule.timezone, state.schedule.job_id) == ("Europe/Berlin", timed.shop.job_id)
    assert len(state.next_ticks) == 5
    with timed.shop.database.read() as session:
        assert session.get_one(Project, timed.shop.project_id).cron_schedule == "@daily"
