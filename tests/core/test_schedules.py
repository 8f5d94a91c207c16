"""The cron schedules that projects may have."""

from __future__ import annotations

import pytest

from core.errors import BadInput
from core.projects.repository import ProjectRepository
from tests.support.shop import Shop


@pytest.mark.parametrize(
    "schedule",
    [
        "0 5 * * *",
        "*/5 0-6,20 1W * mon-FRI",
        "0 0 12 ? * MON#2",
        "0 0 1 JAN ? 2030",
        " @Daily ",
        "0 0 L * L5",
        "0 0 12 1 1 ? 2030",
        *("0 0 * * 5L", "0 0 LW * *", "0 0 * * L", "0 0 0 ? * FRIL", "0 0 0 LW * ? 2030", "0 0 L-3 * ? 2030"),
    ],
)
def test_schedules_of_every_cron_are_stored_as_they_are(shop: Shop, schedule: str) -> None:
    with shop.database.write() as session:
        projects = ProjectRepository(session, shop.organization_id)
        assert projects.create({"name": "timed", "cron_schedule": schedule}).cron_schedule == schedule
        assert projects.update(shop.project_id, {"cron_schedule": schedule}).cron_schedule == schedule


@pytest.mark.parametrize(
    "schedule",
    [
        *("daily", "* * * *", "every day at five am", "0 5 * * * * * *", "0 5 * * *; x", "-1 5 * * *", "* " * 200),
        *(
            "99 * * * *",
            "0 24 * * *",
            "0 0 32 * *",
            "0 0 0 * *",
            "0 0 * 13 *",
            "0 0 * * 8",
            "*/0 * * * *",
            "R R * * *",
        ),
        *("60 * * * * *", "0 0 1-40 * *", "0 0 1,2,77 * *", "@reboot", " ", "1,R * * * *"),
        *("60 0 * * 5L", "0 0 * * 8L", "0 0 * * LW", "0 0 5L * *", "0 0 L-31 * *", "0 0 * L *"),
    ],
)
def test_an_invalid_cron_is_refused(shop: Shop, schedule: str) -> None:
    with shop.database.write() as session:
        projects = ProjectRepository(session, shop.organization_id)
        with pytest.raises(BadInput, match="cronSchedule"):
            projects.create({"name": "timed", "cron_schedule": schedule})
        with pytest.raises(BadInput, match="cronSchedule"):
            projects.update(shop.project_id, {"cron_schedule": schedule})
        old = projects.get(shop.project_id)
        old.cron_schedule = schedule
        session.flush()
        assert projects.update(shop.project_id, {"cron_schedule": schedule, "description": "d"}).description == "d"
