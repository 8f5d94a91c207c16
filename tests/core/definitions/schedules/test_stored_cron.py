"""The cron expressions that projects may have."""

from __future__ import annotations

import pytest

from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.errors import BadInput
from tests.support.shop import Shop


def test_expressions_are_stored_as_they_are_written(shop: Shop) -> None:
    with shop.database.write() as session:
        projects = ProjectRepository(session, shop.organization_id)
        for number, text in enumerate(["0 5 * * *", " @Daily ", "0 0 12 ? * MON#2"]):
            assert projects.create(ProjectCreate(name=f"timed {number}", cron_schedule=text)).cron_schedule == text
            assert projects.update(shop.project_id, ProjectUpdate(cron_schedule=text)).cron_schedule == text


def test_what_cannot_be_fired_is_refused_unless_it_is_there_already(shop: Shop) -> None:
    with shop.database.write() as session:
        projects = ProjectRepository(session, shop.organization_id)
        for text in ("at five", "* * * * * *", "0 0 30 2 *"):
            with pytest.raises(BadInput, match="cronSchedule"):
                projects.create(ProjectCreate(name="timed", cron_schedule=text))
            with pytest.raises(BadInput, match="cronSchedule"):
                projects.update(shop.project_id, ProjectUpdate(cron_schedule=text))
        old = projects.get(shop.project_id)
        old.cron_schedule = "0 0 12 1 1 ? 2030"
        session.flush()
        values = {"cron_schedule": old.cron_schedule, "description": "d"}
        assert projects.update(shop.project_id, ProjectUpdate(**values)).description == "d"
