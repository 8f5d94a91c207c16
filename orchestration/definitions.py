"""The definitions that Dagster's code server loads."""

from __future__ import annotations

from contextlib import closing

from dagster import Definitions

from core.infra.database import open_database
from core.infra.settings import Settings
from core.jobs.outlines import load_outlines
from orchestration.assets import build_definitions, build_job_asset
from orchestration.run_drivers import build_drivers


def load_definitions() -> Definitions:
    """Return the definitions of all jobs as they are now."""
    with closing(open_database(Settings())) as database, database.read() as session:
        outlines = load_outlines(session)
    return build_definitions([build_job_asset(outline) for outline in outlines], build_drivers({}))


definitions = load_definitions()
