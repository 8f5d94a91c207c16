"""A site with a page of rows for each day, a job that is partitioned by it, and its backfills."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import Handler, serve
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until

MONTH = {"by": "day", "start": "2026-06-01", "end": "2026-06-30", "parameter": "DAY", "timezone": "Europe/Rome"}
PIPELINE = """\
fetch: {url: "%s/?day=${DAY}"}
pipeline:
  - {stage: flatSelect, args: [li, [{selector: b, as: title}]]}
"""


@dataclass
class DaySite:
    """Gives `rows` rows for a day; those in `broken` have no page. `requests` counts the days that were asked for."""

    url: str = ""
    rows: int = 3
    broken: set[str] = field(default_factory=set[str])
    requests: Counter[str] = field(default_factory=Counter[str])

    @property
    def pipeline(self) -> str:
        return PIPELINE % self.url

    def make_job(self, service: Service, format_: str = "parquet") -> Job:
        """Make a job whose partitions are the days of a month, and whose executions have a second attempt."""
        job = service.make_job(f"{self.pipeline}output: {{format: {format_}}}\n")
        body = {"partitions": MONTH, "maxRetries": 1, "retryBackoffSeconds": 1}
        with service.client() as client:
            assert client.put(job.path, json=body).is_success
        return job


@contextmanager
def serve_days() -> Generator[DaySite]:
    site = DaySite()

    class DayHandler(Handler):
        def do_GET(self) -> None:
            days = parse_qs(urlsplit(self.path).query).get("day")
            if not days or days[0] in site.broken:
                self.respond(404)
                return
            site.requests[days[0]] += 1
            items = "".join(f"<li><b>{days[0]} {number}</b></li>" for number in range(site.rows))
            self.respond(body=f"<title>x</title><ul>{items}</ul>")

    with serve(DayHandler) as site.url:
        yield site


def finish_backfill(service: Service, job: Job, backfill: str) -> Json:
    """Return a backfill once it has ended."""

    def ask() -> Json:
        return service.get(f"{job.path}/backfills/{backfill}")

    wait_until(lambda: ask()["state"] != "RUNNING", 5 * PATIENCE_SECONDS, every=POLL_SECONDS)
    return ask()


def count_rows(service: Service, job: Job) -> dict[str, int]:
    """Return the number of rows by day."""
    dataset = service.get(f"/datasets/{service.get(job.path)['outputDatasetId']}")
    table = f"{dataset['schema']}.{dataset['tableName']}"
    answer = service.post("/datasets/query", {"sql": f"SELECT day, count(*) AS n FROM {table} GROUP BY day"})
    return {row["day"]: int(row["n"]) for row in answer["results"]}


@contextmanager
def count_meanwhile(service: Service, job: Job) -> Generator[list[dict[str, int]]]:
    """Count the rows by day again and again, in a thread; the list has what it has found."""
    seen, is_over = [count_rows(service, job)], threading.Event()

    def read() -> None:
        while not is_over.wait(POLL_SECONDS / 5):
            seen.append(count_rows(service, job))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        is_over.set()
        reader.join()
