"""The whole service behind a PgBouncer in transaction mode, with its defaults."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from core.infra.connection_budget import count_connections
from core.infra.database import make_engine
from core.infra.settings import Settings
from tests.support.pgbouncer import pooler
from tests.support.postgres import cluster
from tests.support.service import GATED_CRAWL, POLL_SECONDS, Service, serve_service, wait_until
from tests.support.site import GatedSite

pytestmark = pytest.mark.long
PROCESSES = "SELECT application_name, count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' GROUP BY 1"
MODES = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename = 'alembic_version'"


def test_executions_run_and_each_process_is_named(tmp_path: Path, site: GatedSite) -> None:
    site.open()
    with (
        cluster() as server,
        pooler(server.url) as url,
        serve_service(tmp_path, {"SPINDLE_DATABASE_URL": url}) as service,
    ):
        job = service.make_job(GATED_CRAWL.format(url=site.url))
        executions = [service.execute(job) for _ in range(3)]
        assert [service.wait(job, each)["status"] for each in executions] == ["COMPLETED"] * 3
        for each in executions:
            wait_until(lambda each=each: has_succeeded(service, each), 60, every=POLL_SECONDS)
        engine = make_engine(server.url)
        with engine.connect() as connection:
            processes = {name: count for name, count in connection.execute(text(PROCESSES)).tuples()}
            schemas = {*connection.scalars(text(MODES))}
        engine.dispose()
        assert schemas == {"public", "dagster"}
        assert "spindle launcher" in processes
        assert sum(processes.values()) <= sum(count_connections(Settings()).values())
        assert "Traceback" not in (service.data / "spindle.log").read_text()


def has_succeeded(service: Service, execution_id: str) -> bool:
    return [run["status"] for run in service.runs(execution_id)] == ["SUCCESS"]
