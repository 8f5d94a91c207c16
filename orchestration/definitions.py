"""The definitions that Dagster's code server loads."""

from __future__ import annotations

from contextlib import closing

from dagster import Definitions

from core.cron_jobs.outlines import load_cron_job_outlines
from core.infra.database import open_database
from core.infra.settings import Settings
from core.jobs.outlines import load_outlines
from core.schedules.outlines import load_schedules
from orchestration.assets import build_definitions, build_job_asset
from orchestration.cron_jobs import build_cron_job_schedule
from orchestration.run_drivers import build_drivers
from orchestration.schedules import build_schedule


def load_definitions() -> Definitions:
    """Return the definitions of all jobs as they are now."""
    with closing(open_database(Settings())) as database, database.read() as session:
        outlines, schedules = load_outlines(session), load_schedules(session)
        cron_jobs = load_cron_job_outlines(session)
    assets = [build_job_asset(outline) for outline in outlines]
    timed = [*map(build_schedule, schedules), *map(build_cron_job_schedule, cron_jobs)]
    return build_definitions(assets, build_drivers({}), timed)


definitions = load_definitions()
