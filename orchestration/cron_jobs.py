"""Cron jobs as Dagster schedules: a tick stores a call, which the process `webhooks` makes."""

from contextlib import closing
from datetime import datetime
from typing import Any

from dagster import (
    DefaultScheduleStatus,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
)

from core.definitions.cron_jobs.outlines import CronJobOutline
from core.infra.database import open_database
from core.infra.settings import Settings
from core.infra.slugs import make_slug
from core.lifecycle.firing.cron_jobs import FiredCall, fire
from core.tables import now
from orchestration.dagster_internals import is_tick
from orchestration.instance import CRON_JOB

ID_LENGTH = 8  # of the end of an id, which is random


@op(config_schema={"cron_job_id": str})
def store_call(context: OpExecutionContext) -> None:
    """Store a call that is due now."""
    context.log.info(_fire(context.op_config["cron_job_id"], now()).message)


@job(name=CRON_JOB, executor_def=in_process_executor)
def call_cron_job() -> None:
    """Makes a cron job's call at once, independently of its schedule. The launchpad takes the cron job's id."""
    store_call()


def build_cron_job_schedule(outline: CronJobOutline, target: JobDefinition = call_cron_job) -> ScheduleDefinition:
    """Return the schedule of a cron job. Its ticks start no run: the call and its results are on the cron job."""

    def evaluate(context: ScheduleEvaluationContext) -> SkipReason:
        if not is_tick(context):
            return SkipReason(f"This is a preview: nothing is called. The tick would call {outline.url}.")
        return SkipReason(_fire(outline.cron_job_id, context.scheduled_execution_time).message)

    metadata: dict[str, Any] = {
        "cron job": outline.name,
        "namespace": outline.namespace,
        "organization": outline.organization_name,
        "schedule": outline.schedule,
        "address": MetadataValue.url(outline.url),
    }
    return ScheduleDefinition(
        name=get_schedule_name(outline),
        cron_schedule=outline.expression,
        execution_timezone=outline.timezone,
        execution_fn=evaluate,
        job=target,  # a schedule must have one, and asset jobs exist only beside assets
        description=f"Calls {outline.url} for the cron job '{outline.name}'.",
        metadata=metadata,
        default_status=DefaultScheduleStatus.RUNNING,
    )


def get_schedule_name(outline: CronJobOutline) -> str:
    """Return the schedule's name: the cron job's, in the characters that Dagster allows, and the end of its id."""
    return f"cron_{make_slug(outline.name)}_{outline.cron_job_id[-ID_LENGTH:]}"


def _fire(cron_job_id: str, tick_at: datetime) -> FiredCall:
    with closing(open_database(Settings())) as database:
        return fire(database, cron_job_id, tick_at, now())
