"""Hundreds of executions of ten pipelines in few drivers with Spark: `python -m bench.soak [EXECUTIONS]`.

Files, user functions, Delta, Iceberg, a crawl, the browser, a join, a function that fails; in the last fifth one in
ten is cancelled. The rows of each are those of a driver that has served nobody. Every fifty executions it prints the
memory (RSS), files and threads of the drivers, with their JVMs. With SPINDLE_TEST_S3_ENDPOINT the storage is a bucket.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import psutil

from bench.nginx import install_packages
from bench.service import CLONE, Json, Service, create_job, describe_machine, post, run_spindle
from bench.sites import serve_catalog
from tests.support.s3 import find_bucket

EXECUTIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
AT_ONCE, SAMPLE, PAGES = 2, 50, 10
CANCELS_AFTER = 0.8
POLL_SECONDS = 0.3
FUNCTIONS = {
    "mark": "def mark(row): return {**row, 'mark': row['name'][::-1]}",
    "fail": "def fail(row): raise ValueError(row['name'])",
}
LOAD = "{stage: load_csv, args: [{path: '$csv', header: true}]}"
PRODUCTS = "SELECT category, count(*) AS products, max(price) AS price FROM rows GROUP BY category"
PAIRS = "SELECT a.name, b.price FROM rows a JOIN rows b ON a.name = b.name"
PLACES = "SELECT name, rank() OVER (ORDER BY name) AS place FROM rows"
EXTRACT = "{stage: extract, args: [{selector: h1, as: name}, {selector: .price, as: price}]}"
PIPELINES = {
    "group": f'pipeline: [{LOAD}, {{stage: sql_query, args: ["{PRODUCTS}"]}}]',
    "function": f"pipeline: [{LOAD}, {{stage: 'python_row_transform:mark'}}, {{stage: dedup, args: [name]}}]",
    "delta": f"pipeline: [{LOAD}]\noutput: {{path: delta, format: delta}}",
    "iceberg": f"pipeline: [{LOAD}]\noutput: {{path: iceberg, format: iceberg, mode: merge, keys: [name]}}",
    "crawl": "fetch: {url: '$site'}\n"
    f"pipeline: [{{stage: join, args: [li.item a]}}, {EXTRACT}, {{stage: dedup, args: [name]}}]",
    "browser": "pipeline: [{stage: load_csv, args: [{path: '$links', header: true}]}, "
    f"{{stage: visit, args: [$$link]}}, {EXTRACT}]",
    "join": f'pipeline: [{LOAD}, {{stage: sql_query, args: ["{PAIRS}"]}}]',
    "fails": f"pipeline: [{LOAD}, {{stage: 'python_row_transform:fail', args: {{onError: fail}}}}]",
    "slow": "fetch: {url: '$site'}\nspindle: {engine: spark, delay: 60}\n"
    "pipeline: [{stage: wgetJoin, args: [li.item a]}]",
    "window": f'pipeline: [{LOAD}, {{stage: sql_query, args: ["{PLACES}"]}}]',
}


@dataclass
class Soak:
    service: Service
    fresh: dict[str, str]
    jobs: dict[str, str]
    rows: dict[str, list[Json]] = field(default_factory=dict)
    drivers: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=Lock)

    def run(self, number: int) -> None:
        """Execute one pipeline and compare its rows with those of a fresh driver."""
        names = [*PIPELINES]
        name = names[number % len(names)]
        if name == "slow" and number < CANCELS_AFTER * EXECUTIONS:
            name = "group"
        status = self.execute(name, self.jobs[name])
        expected = "FAILED" if name in {"fails", "slow"} else "COMPLETED"  # a cancelled one shows as failed
        is_right = status["status"] == expected
        if is_right and expected == "COMPLETED":
            is_right = self.read_rows("soak", name) == self.rows[name]
        with self.lock:
            self.drivers[status["driver"]] += 1
            self.states[status["status"]] += 1
            if not is_right:
                self.wrong.append(f"{number} {name}: {status['status']} {status['errorMessage']}")

    def execute(self, name: str, job: str) -> Json:
        execution = f"{job}/executions/" + post(self.service.client, f"{job}/execute?queue=true", {})["executionId"]
        while True:
            status = self.service.client.get(f"{execution}/status").raise_for_status().json()
            if status["status"] == "RUNNING" and name == "slow":
                post(self.service.client, f"{execution}/cancel", {})
            if status["status"] in {"COMPLETED", "FAILED"}:
                return self.service.client.get(execution).raise_for_status().json()
            time.sleep(POLL_SECONDS)

    def read_rows(self, prefix: str, name: str) -> list[Json]:
        query = {"sql": f'SELECT * FROM "{prefix}_{name}"."{prefix}_{name}"', "limit": 1000}
        return sorted(post(self.service.client, "/datasets/query", query)["results"], key=repr)

    def describe_drivers(self) -> str:
        """Return pid, MiB, files and threads of each driver that has served more than one execution."""
        lines: list[str] = []
        for process in psutil.Process(self.service.process.pid).children(recursive=True):
            try:
                jvms = [each for each in process.children() if each.name() == "java"]
                if process.name() == "java" or not jvms:
                    continue
                tree = (process, *jvms)
                mib = " + ".join(f"{each.memory_info().rss / 2**20:.0f}" for each in tree)
                files, threads = sum(each.num_fds() for each in tree), sum(each.num_threads() for each in tree)
                lines.append(f"{process.pid}: {mib} MiB, {files} files, {threads} threads")
            except psutil.Error:
                continue
        return "; ".join(lines)


def main() -> None:
    print(describe_machine())
    bucket = find_bucket()
    install_packages()
    with TemporaryDirectory(prefix="spindle-bench-") as folder, serve_catalog(PAGES, 5_000) as site:
        csv, links = Path(folder) / "products.csv", Path(folder) / "links.csv"
        csv.write_text("".join((CLONE / "examples/shop/products.csv").read_text().splitlines(keepends=True)[:21]))
        pages = (site.replace("index.html", f"{number}.html") for number in range(4))
        links.write_text("\n".join(("link", *pages)))
        settings = {
            "SPINDLE_LOCAL_FOLDERS": folder,
            "SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8",
            "SPINDLE_DRIVER_EXECUTIONS": "1000",
            **(bucket.environment if bucket else {}),
        }
        with run_spindle(settings) as service:
            texts = {name: fill(text, csv=csv, links=links, site=site) for name, text in PIPELINES.items()}
            report(
                Soak(service, create_jobs(service, "fresh", texts, False), create_jobs(service, "soak", texts, True))
            )


def fill(text: str, **values: object) -> str:
    """Return the pipeline, to be run with Spark."""
    return Template(text).substitute(values) + ("" if "spindle:" in text else "\nspindle: {engine: spark}")


def create_jobs(service: Service, prefix: str, texts: dict[str, str], reuse: bool) -> dict[str, str]:
    client = service.client
    jobs = {name: create_job(client, f"{prefix}_{name}", text) for name, text in texts.items()}
    for name, job in jobs.items():
        if not reuse:
            client.put(job, json={"driverReuse": False}).raise_for_status()
        agent = client.get(job).raise_for_status().json()["agentId"]
        for function in (each for each in FUNCTIONS if f":{each}'" in texts[name]):
            body = {"name": function, "extensionType": "row_transform", "function": FUNCTIONS[function]}
            post(client, f"/python-extensions/agents/{agent}/python-extensions", body)
    return jobs


def report(soak: Soak) -> None:
    for name in PIPELINES.keys() - {"fails", "slow"}:
        status = soak.execute(name, soak.fresh[name])
        if status["status"] != "COMPLETED":
            raise SystemExit(f"{name}: {status['errorMessage']}")
        soak.rows[name] = soak.read_rows("fresh", name)
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, EXECUTIONS, SAMPLE):
            list(pool.map(Soak.run, repeat(soak), range(first, min(first + SAMPLE, EXECUTIONS))))
            minutes = (time.perf_counter() - began) / 60
            print(
                f"{min(first + SAMPLE, EXECUTIONS)} after {minutes:.1f} minutes; {soak.describe_drivers()}", flush=True
            )
    print(f"states: {dict(soak.states)}; executions of each driver: {sorted(soak.drivers.values(), reverse=True)}")
    print(f"wrong: {len(soak.wrong)}", *soak.wrong[:20], sep="\n")


if __name__ == "__main__":
    main()
