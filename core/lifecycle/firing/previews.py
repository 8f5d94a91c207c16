"""The preview of a tick: the jobs and parameters that it would execute, without any effect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.orm import Session

from core.definitions.schedules.models import ExecutionRequest
from core.definitions.schedules.repository import find_cron
from core.infra.database import Database
from core.infra.validation import format_time
from core.lifecycle.executions.parameters import Value, resolve_parameters
from core.lifecycle.firing.results import MAX_JOBS
from core.lifecycle.firing.schedules import DISABLED, DISABLED_PROJECT, NO_JOB, NO_JOBS, list_jobs
from core.tables import Job, Project, Schedule

PREVIEW = "This is a preview: nothing is executed."
MAX_VALUE_CHARACTERS = 200


def describe_tick_preview(database: Database, schedule_id: str, tick_at: datetime) -> str:
    """Return the jobs that the tick would execute, with the parameters that are set for them, a line each."""
    with database.read() as session:
        schedule = session.get(Schedule, schedule_id)
        project = session.get(Project, schedule.project_id) if schedule else None
        if schedule is None or project is None or find_cron(project, schedule) is None:
            return f"{PREVIEW} The schedule was deleted."
        jobs = list_jobs(session, schedule)
        lines = [_describe_job(session, job, project, schedule) for job in jobs[:MAX_JOBS]]
    if len(jobs) > MAX_JOBS:
        lines.append(f"And {len(jobs) - MAX_JOBS} more jobs.")
    if not jobs:
        return f"{PREVIEW} {NO_JOB if schedule.job_id else NO_JOBS}"
    obstacles = [DISABLED] * (not schedule.enabled) + [DISABLED_PROJECT] * (not project.enabled)
    subject = f"The tick of {format_time(tick_at)} would execute:"
    return "\n".join([" ".join([PREVIEW, *obstacles, "If enabled: " * bool(obstacles) + subject]), *lines])


def _describe_job(session: Session, job: Job, project: Project, schedule: Schedule) -> str:
    options = ExecutionRequest.from_json(schedule.execution_request_json)
    given: Mapping[str, object] = {**(options.parameters or {}), **schedule.parameters}
    arguments = options.arguments or ()
    assigned = {each.partition("=")[0].strip() for each in arguments if "=" in each}
    values = resolve_parameters(
        {*given, *assigned, *job.parameters, *project.parameters},
        parameters=given,
        arguments=arguments,
        job=job,
        project=project,
        credentials=(),
        built_in={},
        environment={},
    )
    if not values:
        return f"{job.name}: no parameters."
    return f"{job.name}: {', '.join(f'{name} = {_format(value)}' for name, value in values.items())}."


def _format(value: Value) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}…"
