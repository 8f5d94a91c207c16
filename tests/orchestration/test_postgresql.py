"""The whole service on PostgreSQL by one setting, Dagster's own storage included."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import create_engine, inspect, make_url, text

from orchestration.instance import DAGSTER_SCHEMA
from tests.support.postgres import Cluster
from tests.support.service import GATED_CRAWL, POLL_SECONDS, Service, wait_until
from tests.support.site import GatedSite

pytestmark = pytest.mark.long
REST_SECONDS = 30  # of its processes
TRANSACTIONS = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname = current_database()"


def test_an_execution_runs_from_end_to_end(on_postgresql: tuple[Service, Cluster], site: GatedSite) -> None:
    service, cluster = on_postgresql
    site.open()
    job = service.make_job(GATED_CRAWL.format(url=site.url))
    execution = service.execute(job)
    status = service.wait(job, execution, seconds=120)
    assert status["status"] == "COMPLETED", status
    wait_until(lambda: [run["status"] for run in service.runs(execution)] == ["SUCCESS"], 60, every=POLL_SECONDS)
    assert not list(service.data.rglob("*.db"))
    engine = create_engine(make_url(cluster.url).set(drivername="postgresql+psycopg"))
    tables = inspect(engine)
    assert {"runs", "event_logs", "jobs"} <= set(tables.get_table_names(DAGSTER_SCHEMA))
    assert "runs" not in tables.get_table_names("public")
    assert "executions" in tables.get_table_names("public")
    engine.dispose()


def test_an_idle_service_asks_the_database_little(on_postgresql: tuple[Service, Cluster]) -> None:
    _, cluster = on_postgresql
    engine = create_engine(make_url(cluster.url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:

        def count_in_a_rest() -> int:
            before = connection.scalar(text(TRANSACTIONS))
            time.sleep(REST_SECONDS)
            return int(connection.scalar(text(TRANSACTIONS)) - before)

        counts = (count_in_a_rest() for _ in range(8))  # it is idle when it has done with what other tests left
        assert any(count <= 5 * REST_SECONDS for count in counts)
    engine.dispose()
