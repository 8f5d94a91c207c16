"""The switch of a schedule, which people turn here and in Dagster's UI: whichever was used last holds."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.schedules.outlines import HAS_EXPRESSION, load_schedules
from core.definitions.schedules.repository import ScheduleRepository
from core.infra.database import Database
from core.tables import Project, Schedule


def agree_on_switches(database: Database, shown: Mapping[str, bool]) -> dict[str, bool]:
    """Adopt the switches that were turned in Dagster; return by name those that have to be turned there.

    `shown` are Dagster's switches by the schedule's name. A switch that differs from the state
    of their last agreement was turned since.
    """
    with database.read() as session:
        differ = [each for each in _load(session) if each[0] in shown and not _agrees(each[1], shown[each[0]])]
    turn: dict[str, bool] = {}
    if not differ:
        return turn
    with database.write() as session:
        for name, schedule in _load(session):
            if name in shown and not _agrees(schedule, shown[name]):
                _settle(session, schedule, shown[name])
                if schedule.enabled != shown[name]:
                    turn[name] = schedule.enabled
    return turn


def has_new_switch(database: Database) -> bool:
    """Whether a schedule is on which this service and Dagster never agreed."""
    query = select(Schedule.id).join(Project, Project.id == Schedule.project_id)
    query = query.where(Schedule.agreed_enabled.is_(None), HAS_EXPRESSION)
    with database.read() as session:
        return session.scalar(query.limit(1)) is not None


def record_switch(database: Database, name: str, enabled: bool) -> None:
    """Record that the switch was turned in Dagster: the next change here must not look like one there."""
    with database.write() as session:
        for each, schedule in _load(session):
            if each == name:
                schedule.agreed_enabled = enabled


def _load(session: Session) -> list[tuple[str, Schedule]]:
    return [(each.name, session.get_one(Schedule, each.schedule_id)) for each in load_schedules(session)]


def _agrees(schedule: Schedule, shown: bool) -> bool:
    return schedule.enabled == schedule.agreed_enabled == shown


def _settle(session: Session, schedule: Schedule, shown: bool) -> None:
    if schedule.enabled == schedule.agreed_enabled:  # so it was turned in Dagster
        schedule.enabled = shown
        session.flush()
        project = session.get_one(Project, schedule.project_id)
        ScheduleRepository(session, schedule.organization_id).plan(project)
    if schedule.enabled == shown:
        schedule.agreed_enabled = shown
