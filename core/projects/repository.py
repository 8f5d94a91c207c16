"""Projects: what jobs, their storage and their ten slots belong to."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from croniter import croniter
from sqlalchemy import RowMapping, bindparam, select

from core.errors import BadInput, Conflict, Detail
from core.executions.transitions import cancel_all
from core.infra.repository import Repository, among, checked, ids_where, lock_organization
from core.infra.slugs import unique_slug
from core.infra.validation import check_not_reserved, storable
from core.tables import Execution, Job, Project

RESERVED_SCHEMAS = frozenset({"default", "information_schema", "main", "pg_catalog", "system", "temp"})

LONGEST_CRON = 255
LAST_DAY = re.compile(r"^l(-([12]?[0-9]|30))?w?$")
LAST_WEEKDAY = re.compile(r"^([0-7]|sun|mon|tue|wed|thu|fri|sat)l$")

ID = (Project.organization_id == bindparam("organization_id"), Project.id == bindparam("id"))
BY_ID = select(Project).where(*ID)
SHOWN = select(*Project.__table__.c, ids_where(Job.id, Job.project_id == Project.id).label("job_ids"))


class Projects(Repository[Project]):
    row = Project
    noun = "project"
    shown = SHOWN
    shown_by_ids = SHOWN.where(among(Project.id))
    fields = frozenset({"name", "description", "cron_schedule", "enabled", "parameters"})

    def create(self, values: Mapping[str, Any]) -> Project:
        """Raises BadInput without a usable name, Conflict when the name is taken."""
        project = self.new(values)
        self._check_free(project.name)
        project.slug = unique_slug(project.name, self.slugs())
        self.session.add(project)
        self.session.flush()
        return project

    def new(self, values: Mapping[str, Any]) -> Project:
        """One that is right in itself, not stored yet, without a slug, of a name that may be taken; or BadInput."""
        known = checked(values, self.fields)
        if "name" not in known:
            raise BadInput("A project needs a 'name'.", [Detail("name", "is missing")])
        _check_cron(known.get("cron_schedule"))
        check_not_reserved(known["name"])
        return Project(organization_id=self.organization_id, **known)

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[Project]:
        return self._page(self._own(), limit, after)

    def records(self, *, limit: int | None = None, after: str | None = None) -> Sequence[RowMapping]:
        return self._records(limit=limit, after=after)

    def get(self, project_id: str) -> Project:
        if not storable(project_id):
            raise self._unknown()
        return self._found(BY_ID, {"organization_id": self.organization_id, "id": project_id})

    def by_name(self, name: str) -> Project:
        if not storable(name):
            raise self._unknown("name")
        return self._one(self._own().where(Project.name == name), "name")

    def update(self, project_id: str, changes: Mapping[str, Any]) -> Project:
        """Merges; the slug stays, so that SQL names survive a rename."""
        project, known = self.get(project_id), checked(changes, self.fields)
        if known.get("name", project.name) != project.name:
            check_not_reserved(known["name"])
            self._check_free(known["name"])
        if known.get("cron_schedule") != project.cron_schedule:
            _check_cron(known.get("cron_schedule"))
        return self._merge(project, known)

    def delete(self, project_id: str) -> None:
        """Removes the project with its jobs, executions and datasets; what still runs is cancelled first."""
        project = self.get(project_id)
        cancel_all(self.session, Execution.project_id == project.id, "The project was deleted.")
        self.session.delete(project)
        self.session.flush()

    def slugs(self) -> Collection[str]:
        """Those that no new project may have."""
        taken = select(Project.slug).where(Project.organization_id == self.organization_id)
        return RESERVED_SCHEMAS.union(self.session.scalars(taken))

    def _check_free(self, name: str) -> None:
        lock_organization(self.session, self.organization_id)
        if self.session.scalar(self._own().where(Project.name == name)):
            raise Conflict("There is a project with this name already.")


def _check_cron(schedule: str | None) -> None:
    """Raises BadInput for what is no cron schedule; empty is none."""
    if schedule and not (len(schedule) <= LONGEST_CRON and _is_cron(schedule.lower().split())):
        sentence = "'cronSchedule' is no cron schedule: minute, hour, day, month and weekday, such as 30 6 * * MON-FRI."
        raise BadInput(sentence, [Detail("cronSchedule", sentence)])


def _is_cron(fields: Sequence[str]) -> bool:
    """Five fields, which may have seconds in front and a year behind, or a word such as @daily."""
    if any(field.startswith("r") for field in fields):  # a random time, which no other cron knows
        return False
    readings = [fields]  # croniter has the seconds behind the five, and the year behind them
    if len(fields) > 5:
        readings += [*fields[1:6], fields[0], *fields[6:]], [*fields[:5], "0", *fields[5:]]
    return any(croniter.is_valid(_plain(reading)) for reading in readings)


def _plain(fields: Sequence[str]) -> str:
    """With plain days where croniter does not read Quartz's: `LW`, `L-3`, `5L`, `FRIL`, and `L` for SAT."""
    days = [LAST_DAY.sub("l", field) for field in fields[2:3]]
    weekdays = ["sat" if field == "l" else LAST_WEEKDAY.sub(r"\1", field) for field in fields[4:5]]
    return " ".join([*fields[:2], *days, *fields[3:4], *weekdays, *fields[5:]])
