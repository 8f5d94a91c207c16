"""The whole service on PostgreSQL by one setting, Dagster's own storage included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, inspect, make_url

from orchestration.instance import DAGSTER_SCHEMA
from tests.support.postgres import new_database
from tests.support.service import Service, wait_until
from tests.support.site import GatedSite

pytestmark = pytest.mark.long
PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.fixture
def on_postgresql(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("postgresql") / "data"
    service = Service(data, {"SPINDLE_DATABASE_URL": url}).start()
    yield service
    assert service.stop() == 0


def test_an_execution_runs_from_end_to_end(on_postgresql: Service, site: GatedSite, url: str) -> None:
    site.open()
    job = on_postgresql.make_job(PIPELINE.format(url=site.url))
    execution = on_postgresql.execute(job)
    status = on_postgresql.wait(job, execution, seconds=120)
    assert status["status"] == "COMPLETED", status
    wait_until(lambda: [run["status"] for run in on_postgresql.runs(execution)] == ["SUCCESS"], 60)
    assert not list(on_postgresql.data.rglob("*.db"))
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    tables = inspect(engine)
    assert {"runs", "event_logs", "jobs"} <= set(tables.get_table_names(DAGSTER_SCHEMA))
    assert "runs" not in tables.get_table_names("public")
    assert "executions" in tables.get_table_names("public")
    engine.dispose()
