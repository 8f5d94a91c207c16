"""What is kept of an execution, before a cleanup and after it, on SQLite: `python -m bench.growth [EXECUTIONS]`.

Tables count by their pages that are in use, files by their blocks. Rows of the output are data, and no part of it.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from bench.service import create_job, describe_machine, post, run_spindle, wait_until_completed
from bench.sites import serve_catalog
from cli.cleanup import open_cleaner
from core.infra.settings import Settings
from core.tables import now

EXECUTIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
WARM_UP, DAYS = 5, 40
NO_GROWTH = ("up.log", "spindle.log", ".db")  # the last one is the database of Dagster's events without a run
PIPELINE = """
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: join, args: [li.item a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: .price, as: price}}]}}
"""


def main() -> None:
    print(describe_machine())
    environment = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8", "SPINDLE_SPARE_DRIVERS": "0"}
    with serve_catalog(20, 5_000) as url, run_spindle(environment) as service:
        job = create_job(service.client, "growth", PIPELINE.format(url=url))

        def execute(count: int) -> None:
            for _ in range(count):
                execution = post(service.client, f"{job}/execute", {})["executionId"]
                wait_until_completed(service.client, job, execution)

        execute(WARM_UP)
        clean_up(service.data)
        empty = measure(service.data)
        execute(EXECUTIONS)
        report("before", measure(service.data) - empty)
        clean_up(service.data)
        report("after", measure(service.data) - empty)


def clean_up(data: Path) -> None:
    """Clean up as if the days of all settings had passed."""
    with open_cleaner(Settings(data=data)) as cleaner:
        cleaner.clean_up(now() + timedelta(days=DAYS))


def measure(data: Path) -> Counter[str]:
    """Return the bytes of each kind."""
    found: Counter[str] = Counter()
    databases = [path for name in ("spindle", "runs", "index", "schedules") for path in data.rglob(f"{name}.db")]
    for path in databases:
        with closing(sqlite3.connect(path)) as connection:
            size, pages, free = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count", "freelist_count")
            )
        found[f"tables of {path.stem}"] = size * (pages - free)
    for path in data.rglob("*"):
        is_database = any(path.is_relative_to(each) or str(path).startswith(f"{each}-") for each in databases)
        if not is_database and not path.name.startswith(NO_GROWTH) and path.exists():
            place = path.relative_to(data).parts
            if "output" not in place and not (path / "output").exists() and not [*path.glob("*/output")]:
                found["files of " + "/".join(place[:2])] += path.stat().st_blocks * 512
    return found


def report(when: str, grown: Counter[str]) -> None:
    each = {kind: size / EXECUTIONS for kind, size in grown.items() if size}
    print(f"{when} the cleanup: {sum(each.values()):,.0f} bytes of an execution")
    for kind, size in sorted(each.items(), key=lambda item: -item[1]):
        print(f"  {size:8,.0f}  {kind}")


if __name__ == "__main__":
    main()
