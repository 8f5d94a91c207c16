"""Executions that ended before there were bills are in the totals, at no cost."""

from __future__ import annotations

import json
from pathlib import Path

from alembic import command
from sqlalchemy import text

from core.infra.database import Database, database_url, make_engine, open_database
from core.infra.migrations import create_config, migrate
from core.infra.settings import Settings
from core.lifecycle.metrics.totals import summarize
from core.lifecycle.usage.periods import Period
from core.tables import now

OWNER = "INSERT INTO organizations VALUES ('o', 'acme', 'acme', '2026-01-01 00:00:00')"
PROJECT = """INSERT INTO projects (id, organization_id, name, slug, enabled, parameters, active_executions, created_at,
    updated_at) VALUES ('p', 'o', 'Shop', 'shop', true, '{}', 0, '2026-01-01', '2026-01-01')"""
JOB = """INSERT INTO jobs (id, organization_id, project_id, name, slug, cloud_credential_ids, parameters, enabled,
    execution_count, created_at, updated_at)
    VALUES ('j', 'o', 'p', 'Books', 'books', '[]', '{}', true, 0, '2026-01-01', '2026-01-01')"""
EXECUTION = """INSERT INTO executions (id, organization_id, project_id, job_id, job_name, state, attempt, agent_id,
    agent_revision, pipeline_yaml, parameters, inputs, output_mode, credentials, started_at, completed_at, metrics,
    progress, created_at, updated_at)
    VALUES (:id, 'o', 'p', 'j', 'Books', :state, 1, 'a', 1, '', '{}', '{}', 'overwrite', '{}',
    '2026-03-31 23:59:00+00:00', :completed_at, :metrics, '{}', '2026-01-01', '2026-01-01')"""
METRICS = json.dumps({"total_cpu_time_seconds": 80, "records_processed": 7, "output_file_size_bytes": 1000})


def test_executions_older_than_bills(empty: Settings) -> None:
    _at_revision_3(empty)
    migrate(empty)
    database = open_database(empty)
    march, april = (_amounts(database, start, end) for start, end in (("03-01", "03-31"), ("04-01", "04-30")))
    database.close()
    assert (march["executions"], march["seconds"], march["cpu_ms"], march["records"]) == (1, 59, 80_000, 7)
    assert (april["executions"], april["seconds"], april["bytes_written"], april["driver_cost"]) == (1, 120, 1000, 0)


def _at_revision_3(settings: Settings) -> None:
    Path(settings.data).mkdir(exist_ok=True)
    engine = make_engine(database_url(settings)).execution_options(writes=True)
    with engine.begin() as connection:
        command.upgrade(create_config(connection), "0003")
        for statement in (OWNER, PROJECT, JOB):
            connection.execute(text(statement))
        for id_, state, ended in (
            ("1", "COMPLETED", "2026-03-31 23:59:59+00:00"),
            ("2", "FAILED", "2026-04-01 00:01:00+00:00"),
            ("3", "RUNNING", None),
        ):
            values = {"id": id_, "state": state, "completed_at": ended, "metrics": METRICS}
            connection.execute(text(EXECUTION), values)
    engine.dispose()


def _amounts(database: Database, start: str, end: str) -> dict[str, int]:
    with database.read() as session:
        return summarize(session, "o", Period.from_texts(f"2026-{start}", f"2026-{end}", now())).summary.amounts
