"""The schedules of a project: their fields, their next ticks, and the history of their ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from core.definitions.schedules.cron import Cron, parse_cron, parse_timezone
from core.definitions.schedules.models import ExecutionRequest, ScheduleCreate, ScheduleUpdate
from core.errors import BadInput, Conflict, NotFound
from core.infra.repository import Repository
from core.infra.slugs import make_slug
from core.infra.validation import is_storable
from core.tables import Job, Project, Schedule, ScheduleTick, TickJob, now

OVERLAPS = ("skip", "queue", "allow")
MISSED = ("latest", "none", "all")
LONGEST_REQUEST = 64 * 2**10
UTC = "UTC"


@dataclass(frozen=True, slots=True)
class TickWithJobs:
    """A tick and its result for the jobs, by name."""

    tick: ScheduleTick
    jobs: Sequence[TickJob]


class ScheduleRepository(Repository[Schedule]):
    """The schedules of one organization's projects: one without a name, and others by name.

    A project that never had the one without a name gets defaults when it is read.
    """

    row = Schedule
    noun = "schedule"

    def get_project(self, project_id: str) -> Project:
        """Return the project whose schedule is read or changed."""
        query = select(Project).where(Project.organization_id == self.organization_id, Project.id == project_id)
        project = self.session.scalar(query) if is_storable(project_id) else None
        if project is None:
            raise NotFound("There is no project with this id.")
        return project

    def get(self, project: Project, name: str = "") -> Schedule:
        """Return a schedule; the one without a name has defaults where it is not stored. Raises NotFound."""
        schedule = self.find(project, name)
        if schedule is None and name:
            raise NotFound("The project has no schedule with this name.")
        return schedule or self._build(project, name)

    def create(self, project: Project, new: ScheduleCreate) -> Schedule:
        """Store a schedule with a name. Raises BadInput, and Conflict when the project has one of this name."""
        if new.name != make_slug(new.name):
            name = new.name[:80]
            sentence = f"'{name}' is no name of a schedule. Write small letters, digits and single _, as in nightly."
            raise BadInput(sentence, path="name")
        if self.find(project, new.name) is not None:
            raise Conflict("The project has a schedule with this name.", path="name", code="name-taken")
        return self._write(project, self._build(project, new.name), new)

    def update(self, project: Project, changes: ScheduleUpdate, name: str = "") -> Schedule:
        """Apply the changed fields. Raises BadInput and NotFound.

        The cron expression of the one without a name is the project's own field.
        """
        return self._write(project, self.get(project, name), changes)

    def _write(self, project: Project, schedule: Schedule, changes: ScheduleUpdate) -> Schedule:
        columns = changes.to_columns()
        cron, before = changes.cron, get_expression(project, schedule)
        if cron and cron != before:
            parse_cron(cron)
        if schedule.name and not (before if cron is None else cron):
            raise BadInput("'cronSchedule' is missing: when the schedule fires.", path="cronSchedule")
        if cron is not None and not schedule.name:
            project.cron_schedule = cron or None
        elif cron is not None:
            schedule.cron_schedule = cron
        self._store(schedule)
        known = {field: value for field, value in columns.items() if value != getattr(schedule, field)}
        if known.get("timezone"):
            parse_timezone(known["timezone"])
        elif "timezone" in known:
            known["timezone"] = UTC
        if known.get("execution_request_json"):
            _check_request(known["execution_request_json"])
        if known.get("job_id"):
            self._check_job(project, known["job_id"])
        for field, allowed in (("overlap", OVERLAPS), ("missed", MISSED)):
            if field in known:
                known[field] = _parse_choice(field, known[field], allowed)
        self._apply(schedule, known)
        self.plan(project)
        return schedule

    def plan(self, project: Project, at: datetime | None = None) -> None:
        """Compute the next ticks of schedules whose cron expression, timezone or switch was changed.

        A project that gets its first cron expression gets a schedule.
        """
        if project.cron_schedule and self.find(project) is None:
            self._store(self._build(project, ""))
        for schedule in self.list_of_project(project):
            planned_for = f"{schedule.enabled:d} {schedule.timezone} {get_expression(project, schedule) or ''}"
            if schedule.planned_for != planned_for:
                cron = find_cron(project, schedule) if schedule.enabled else None
                schedule.planned_for = planned_for
                schedule.next_tick_at = next(cron.iterate(at or now(), schedule.timezone), None) if cron else None
        self.session.flush()

    def list_next(self, limit: int) -> Sequence[tuple[Schedule, Project]]:
        """Return the organization's schedules that fire next, with their projects."""
        query = select(Schedule, Project).join(Project, Project.id == Schedule.project_id)
        query = query.where(Schedule.organization_id == self.organization_id, Schedule.next_tick_at.is_not(None))
        found = self.session.execute(query.order_by(Schedule.next_tick_at, Schedule.id).limit(limit))
        return [(schedule, project) for schedule, project in found]

    def list_of_project(self, project: Project) -> Sequence[Schedule]:
        """Return the stored schedules of a project by name, the one without a name first."""
        query = self._select().where(Schedule.project_id == project.id).order_by(Schedule.name)
        return self.session.scalars(query).all()

    def delete(self, project: Project, name: str) -> None:
        """Delete a schedule with its ticks; what waits for a slot is not executed. Raises NotFound."""
        self.session.delete(self.get(project, name))
        self.session.flush()

    def list_ticks(self, schedule: Schedule, *, limit: int | None, before: str | None = None) -> list[TickWithJobs]:
        """Return the ticks, the newest first; `before` is the id of the last one on the previous page."""
        query = select(ScheduleTick).where(ScheduleTick.schedule_id == schedule.id)
        if before is not None:
            cursor = select(ScheduleTick.tick_at).where(ScheduleTick.id == before).scalar_subquery()
            query = query.where(ScheduleTick.tick_at < cursor)
        ticks = self.session.scalars(query.order_by(ScheduleTick.tick_at.desc()).limit(limit)).all()
        jobs = self._load_jobs([tick.id for tick in ticks])
        return [TickWithJobs(tick, jobs.get(tick.id, ())) for tick in ticks]

    def _load_jobs(self, tick_ids: Sequence[str]) -> Mapping[str, Sequence[TickJob]]:
        if not tick_ids:
            return {}
        query = select(TickJob.tick_id, TickJob).where(TickJob.tick_id.in_(tick_ids))
        return self._group(query.order_by(TickJob.job_name, TickJob.id))

    def find(self, project: Project, name: str = "") -> Schedule | None:
        """Return a stored schedule of the project."""
        query = self._select().where(Schedule.project_id == project.id, Schedule.name == name)
        return self.session.scalar(query) if is_storable(name) else None

    def _build(self, project: Project, name: str) -> Schedule:
        return Schedule(
            organization_id=self.organization_id,
            project_id=project.id,
            name=name,
            enabled=True,
            timezone=UTC,
            parameters={},
            overlap=OVERLAPS[0],
            missed=MISSED[0],
        )

    def _store(self, schedule: Schedule) -> None:
        self.session.add(schedule)
        self.session.flush()

    def has_job(self, project: Project, job_id: str) -> bool:
        query = select(func.count()).where(Job.project_id == project.id, Job.id == job_id)
        return bool(self.session.scalar(query))

    def _check_job(self, project: Project, job_id: str) -> None:
        if not self.has_job(project, job_id):
            raise BadInput("The project has no job with this id.", path="jobId", code="not-found")


def get_expression(project: Project, schedule: Schedule) -> str | None:
    """Return the cron expression of a schedule as it was written."""
    return schedule.cron_schedule if schedule.name else project.cron_schedule


def find_cron(project: Project, schedule: Schedule) -> Cron | None:
    """Return the cron expression; None without one, and for one of an earlier version that cannot fire."""
    expression = get_expression(project, schedule)
    try:
        return parse_cron(expression) if expression else None
    except BadInput:
        return None


def list_next_ticks(project: Project, schedule: Schedule, after: datetime, number: int) -> list[datetime]:
    """Return the next ticks; none while the schedule or the project is disabled."""
    cron = find_cron(project, schedule) if schedule.enabled and project.enabled else None
    if cron is None:
        return []
    return cron.list_next(after, schedule.timezone, number)


def _check_request(text: str) -> None:
    if len(text) > LONGEST_REQUEST:
        sentence = f"'executionRequestJson' is longer than {LONGEST_REQUEST:,} characters."
        raise BadInput(sentence, path="executionRequestJson", code="too-large")
    ExecutionRequest.check(text)


def _parse_choice(field: str, value: str, allowed: Sequence[str]) -> str:
    if value.lower() not in allowed:
        raise BadInput(f"'{field}' is one of {', '.join(allowed)}.", path=field)
    return value.lower()
