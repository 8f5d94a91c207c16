"""`python -m bench.definitions [JOBS] [PARTITIONS]`: outlines, assets, repository and its snapshot of many jobs of six
stages; with a number of daily partitions, the same jobs without and with them, in turns.

The jobs are stored in a database of their own. Seconds are those of the process's CPU.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import insert

from core.definitions.agents.models import AgentCreate
from core.definitions.agents.repository import AgentRepository
from core.definitions.identity.organizations import create_organization
from core.definitions.projects.models import ProjectCreate
from core.definitions.projects.repository import ProjectRepository
from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.lifecycle.outlines.outlines import OutlineLoader
from core.tables import Job, new_id
from orchestration.dagster_internals import serialize_definitions
from orchestration.definitions_builder import DefinitionsBuilder, load_outlines

JOBS_OF_A_PROJECT = 100
PIPELINE = """\
pipeline:
  - {stage: wget, args: ["http://shop/${DAY}"]}
  - {stage: wgetJoin, args: ["a.item"]}
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
  - {stage: extract, args: [{selector: .price, method: price, as: price}]}
  - {stage: dedup, args: [title]}
"""
Result = TypeVar("Result")


def main(count: int, partitions: int) -> None:
    for each in (0, partitions) * 3 if partitions else (0,):
        measure_jobs(count, each)


def measure_jobs(count: int, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder) / "data")
        migrate(settings)
        database = open_database(settings)
        fill(database, count, partitions)
        loader, builder = OutlineLoader(), DefinitionsBuilder()
        print(f"{count:,} jobs of six stages, each with {partitions:,} partitions")
        with database.read() as session:
            outlines = measure("outlines", lambda: load_outlines(session, loader))
            measure("outlines again", lambda: load_outlines(session, loader))
        definitions = measure("build and load", lambda: builder.build(outlines))
        measure("load, nothing changed", lambda: builder.build(outlines))
        size = measure("serialize", lambda: len(serialize_definitions(definitions)))
        print(f"{'serialized':<24}{size / 1e6:8.1f} MB")
        database.close()


def fill(database: Database, count: int, partitions: int) -> None:
    start = (datetime.now(UTC) - timedelta(days=partitions)).date().isoformat()
    days: dict[str, Any] = {"partitions": [{"by": "day", "start": start, "parameter": "DAY"}]}
    day: dict[str, Any] = {"parameters": {"DAY": start}}  # or the jobs could not be executed, and would have no steps
    with database.write() as session:
        owner = create_organization(session, "bench").id
        agent = AgentRepository(session, owner).create(AgentCreate(name="crawler", pipeline_yaml=PIPELINE)).id
        for first in range(0, count, JOBS_OF_A_PROJECT):
            project = ProjectRepository(session, owner).create(ProjectCreate(name=f"project {first}")).id
            rows = [
                {
                    "id": new_id(),
                    "organization_id": owner,
                    "project_id": project,
                    "agent_id": agent,
                    "name": f"Job {number}",
                    "slug": f"job_{number}",
                    **(days if partitions else day),
                }
                for number in range(first, min(first + JOBS_OF_A_PROJECT, count))
            ]
            session.execute(insert(Job), rows)


def measure(name: str, work: Callable[[], Result]) -> Result:
    started = time.process_time()
    result = work()
    print(f"{name:<24}{time.process_time() - started:8.2f} s", flush=True)
    return result


if __name__ == "__main__":
    jobs, partitions = sys.argv[1:] or ["1000"], sys.argv[2:] or ["0"]
    main(int(jobs[0]), int(partitions[0]))
