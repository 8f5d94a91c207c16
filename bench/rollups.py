"""Metrics of an organization with a million executions: seconds per kind of period.

    python -m bench.rollups [--executions 1000000] [--folder FOLDER]

Bills are inserted into a new SQLite database, and their totals computed by SQL. Then the function behind the endpoint
summarizes each period, and one result per kind of period is compared with the plain sum over the bills.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from sqlalchemy import func, select, text

from bench.service import describe_machine
from core.definitions.identity.organizations import create_organization
from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.lifecycle.metrics.totals import GroupBy, summarize
from core.lifecycle.usage.bills import AMOUNTS
from core.lifecycle.usage.periods import Period
from core.tables import ExecutionBill

END = datetime(2026, 11, 1, tzinfo=UTC)
DAYS, PROJECTS, JOBS = 730, 30, 300
CHUNK = 20_000
ROUNDS = 60
TOTALS = """INSERT INTO totals (organization_id, grain, start, project_id, job_id, agent_id, {names})
    SELECT organization_id, '{grain}', {start}, project_id, job_id, agent_id, {sums} FROM execution_bills
    GROUP BY 1, 3, 4, 5, 6"""


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--executions", type=int, default=1_000_000)
    arguments.add_argument("--folder", type=Path, default=None)
    options = arguments.parse_args()
    print(describe_machine())
    settings = Settings(data=options.folder or Path(mkdtemp(prefix="rollups-")))
    migrate(settings)
    database = open_database(settings)
    with database.write() as session:
        organization_id = create_organization(session, f"bench {time.time_ns()}").id
    fill(database, organization_id, options.executions)
    chance = random.Random(7)
    print("| period | p50 ms | p95 ms |\n|---|---|---|")
    for name, period in (
        ("a year", make_year),
        ("a day", make_day),
        ("an odd period", make_odd_period),
        ("two years", make_whole_period),
    ):
        report(database, organization_id, name, [period(chance) for _ in range(ROUNDS)])
    database.close()


def fill(database: Database, organization_id: str, count: int) -> None:
    started = time.perf_counter()
    for first in range(0, count, CHUNK):
        with database.write(durable=False) as session:
            rows = make_bills(organization_id, first, min(first + CHUNK, count))
            session.connection().execute(ExecutionBill.__table__.insert(), list(rows))
    names, sums = ", ".join(AMOUNTS), ", ".join(f"sum({name})" for name in AMOUNTS)
    with database.write(durable=False) as session:
        for grain, start in (("day", "date(ended_at)"), ("month", "date(ended_at, 'start of month')")):
            session.execute(text(TOTALS.format(names=names, sums=sums, grain=grain, start=start)))
        totals = session.scalar(text("SELECT count(*) FROM totals"))
    print(f"{count:,} bills and {totals:,} totals in {time.perf_counter() - started:.0f} s\n")


def make_bills(organization_id: str, first: int, last: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(first)
    for number in range(first, last):
        job = chance.randrange(JOBS)
        yield {
            "execution_id": f"{organization_id[:18]}{number:018}",
            "attempt": 1,
            "organization_id": organization_id,
            "project_id": f"project-{job % PROJECTS}",
            "job_id": f"job-{job}",
            "agent_id": f"agent-{job % 50}",
            "ended_at": END - timedelta(seconds=chance.random() * DAYS * 86_400),
            "executor_count": 1,
            "executor_seconds": 0,
            "provider": "local",
            "region": "local",
            "currency": "USD",
            "driver_instance": "local",
            "executor_instance": "local",
            **{name: chance.randrange(10**6) for name in AMOUNTS},
            "executions": 1,
        }


def make_year(chance: random.Random) -> Period:
    start = END - timedelta(days=chance.randrange(365, DAYS))
    return Period(start, start + timedelta(days=365))


def make_day(chance: random.Random) -> Period:
    start = END - timedelta(days=chance.randrange(1, DAYS))
    return Period(start, start + timedelta(days=1))


def make_odd_period(chance: random.Random) -> Period:
    """Return a period of a month to a year that starts and ends within days."""
    start = END - timedelta(seconds=chance.randrange(400 * 86_400, DAYS * 86_400))
    return Period(start, start + timedelta(seconds=chance.randrange(30 * 86_400, 365 * 86_400)))


def make_whole_period(_chance: random.Random) -> Period:
    return Period(END - timedelta(days=DAYS), END)


def report(database: Database, organization_id: str, name: str, periods: list[Period]) -> None:
    times: list[float] = []
    groupings: list[GroupBy] = ["project", "job", "pipeline"]
    for number, period in enumerate(periods):
        started = time.perf_counter()
        with database.read() as session:
            summarize(session, organization_id, period, groupings[number % 3])
        times.append((time.perf_counter() - started) * 1000)
    check(database, organization_id, periods[-1])
    print(f"| {name} | {statistics.median(times):.1f} | {statistics.quantiles(times, n=20)[18]:.1f} |")


def check(database: Database, organization_id: str, period: Period) -> None:
    """Raise SystemExit unless the totals equal the sums of the bills."""
    own = (ExecutionBill.organization_id == organization_id, ExecutionBill.ended_at >= period.start)
    plain = select(*(func.sum(getattr(ExecutionBill, name)) for name in AMOUNTS))
    started = time.perf_counter()
    with database.read() as session:
        sums = session.execute(plain.where(*own, ExecutionBill.ended_at < period.end)).one()
        seconds = time.perf_counter() - started
        found = summarize(session, organization_id, period).summary.amounts
    if tuple(found.values()) != tuple(sum_ or 0 for sum_ in sums):
        raise SystemExit(f"{period}: {found} is not {sums}")
    print(f"  (the plain sum over the bills took {seconds * 1000:.0f} ms)")


if __name__ == "__main__":
    main()
