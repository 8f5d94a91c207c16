"""Outlines of cron jobs: the fields by which Dagster shows and fires them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.schedules.cron import parse_cron
from core.tables import CronJob, Organization


@dataclass(frozen=True, slots=True)
class CronJobOutline:
    """A cron job; `expression` is its schedule in five fields."""

    cron_job_id: str
    organization_name: str
    organization_slug: str
    namespace: str
    name: str
    schedule: str
    expression: str
    timezone: str
    url: str


def load_cron_job_outlines(session: Session, cron_job_ids: Collection[str] | None = None) -> list[CronJobOutline]:
    """Return the outlines of these cron jobs, or of those of all organizations, oldest first.

    One without a next tick is left out: it has none, is paused, or a cluster fires it.
    """
    query = select(CronJob, Organization).join(Organization, Organization.id == CronJob.organization_id)
    query = query.where(CronJob.next_tick_at.is_not(None))
    if cron_job_ids is not None:
        query = query.where(CronJob.id.in_(cron_job_ids))
    return [
        CronJobOutline(
            cron_job_id=cron_job.id,
            organization_name=organization.name,
            organization_slug=organization.slug,
            namespace=cron_job.namespace,
            name=cron_job.name,
            schedule=cron_job.schedule,
            expression=parse_cron(cron_job.schedule).expression,
            timezone=cron_job.timezone,
            url=cron_job.url,
        )
        for cron_job, organization in session.execute(query.order_by(CronJob.id)).tuples()
    ]
