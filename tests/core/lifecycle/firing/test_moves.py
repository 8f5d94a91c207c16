"""Schedules in packages and declarations."""

from __future__ import annotations

from core.exchange.declarations.models import Declaration
from core.exchange.declarations.service import DeclarationService
from core.exchange.packages.export import export_contents
from core.exchange.packages.import_ import import_contents
from core.tables import Project
from tests.core.lifecycle.firing.conftest import Timed
from tests.support.shop import Shop

FIELDS = {"timezone": "Europe/Berlin", "overlap": "queue", "missed": "all", "parameters": {"CITY": "Rome"}}


def test_a_package_carries_the_schedule(timed: Timed, other_shop: Shop) -> None:
    timed.set(**FIELDS, job_id=timed.shop.job_id, enabled=False)
    with timed.shop.database.read() as session:
        contents = export_contents(session, timed.shop.organization_id)
    with timed.shop.database.write() as session:
        import_contents(session, other_shop.organization_id, contents)
        report = import_contents(session, other_shop.organization_id, contents)
    assert (report.created, report.changed) == ([], [])
    schedule = Timed(other_shop).read().schedule
    assert {name: getattr(schedule, name) for name in FIELDS} == FIELDS
    assert (schedule.job_id, schedule.enabled) == (other_shop.job_id, False)
    with timed.shop.database.read() as session:
        assert export_contents(session, other_shop.organization_id) == contents


def test_a_declaration_sets_the_schedule(timed: Timed) -> None:
    service = DeclarationService(timed.shop.database)
    project = {"name": "Shop", "cronSchedule": "@daily", "schedule": {"timezone": "Europe/Berlin", "job": "Books"}}
    declaration = Declaration.model_validate({"projects": [project]})
    changes = service.apply(timed.caller, declaration).changes
    assert [(each.kind, each.name) for each in changes] == [("project", "Shop"), ("schedule", "Shop")]
    assert service.apply(timed.caller, declaration).changes == []
    state = timed.read()
    assert (state.schedule.timezone, state.schedule.job_id) == ("Europe/Berlin", timed.shop.job_id)
    assert len(state.next_ticks) == 5
    with timed.shop.database.read() as session:
        assert session.get_one(Project, timed.shop.project_id).cron_schedule == "@daily"
