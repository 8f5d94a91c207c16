"""The console under viewers: `python -m bench.console [VIEWERS [SECONDS]]`, on SQLite.

CPU of the API while people watch one execution that reports each second, all of them signed in with keys of one
organization; size and time of pages; and CPU of pages over 100 executions and over 100,000.
"""

from __future__ import annotations

import asyncio
import sys
import time
from statistics import median

import httpx
import psutil

from bench.api import IDLE_SECONDS, Instance, Target, run_instance, store_executions
from bench.service import describe_machine
from core.definitions.identity.api_keys import create_key
from core.tables import Execution, Project

VIEWERS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 30
KEYS = 20
WARM_UP_SECONDS = 5
REPORT_SECONDS, REFRESH_SECONDS = 1.0, 3.0
REPEATS, FEW = 60, 100
COLUMN = {"selector": ".price", "column": "price", "pages": 100, "empty": 3, "unfit": 0}


def main() -> None:
    print(describe_machine())
    with run_instance(None, workers=1) as spindle:
        target = spindle.targets[0]
        asyncio.run(watch(spindle, target))
        compare_lengths(spindle, target)


def read_cpu_seconds(spindle: Instance) -> float:
    process = psutil.Process(spindle.process.pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def sign_in(client: httpx.Client, key: str) -> str:
    """Return the cookie of a session."""
    answer = client.post("/console/sign-in", data={"key": key}, headers={"Origin": str(client.base_url).rstrip("/")})
    return answer.headers["Set-Cookie"].partition(";")[0]


def begin(spindle: Instance, target: Target, keys: list[str], job: str) -> tuple[list[str], str]:
    """Return the cookies of sessions of the keys, and the id of an execution."""
    with httpx.Client(base_url=spindle.url, timeout=60) as client:
        started = client.post(f"{job}/execute", json={}, headers={"X-API-Key": target.key}).raise_for_status()
        return [sign_in(client, key) for key in keys], started.json()["executionId"]


async def watch(spindle: Instance, target: Target) -> None:
    with spindle.database.write() as session:
        owner = session.get_one(Project, target.project_id).organization_id
        keys = [create_key(session, owner, "viewer")[1] for _ in range(KEYS)]
    job = f"{target.path}/jobs/{target.job_id}"
    cookies, execution = begin(spindle, target, keys, job)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_SECONDS)
    async with httpx.AsyncClient(base_url=spindle.url, timeout=60, limits=limits) as browser:
        counts = {"events": 0, "pages": 0, "bytes": 0}
        page = f"/console{job.removeprefix('/api/svc/api').replace('/id/', '/')}/executions/{execution}"
        viewers = [
            asyncio.create_task(
                follow(browser, cookies[n % KEYS], f"{job}/executions/{execution}/events", page, counts)
            )
            for n in range(VIEWERS)
        ]
        reporter = asyncio.create_task(report(browser, target, job, execution))
        await asyncio.sleep(WARM_UP_SECONDS)
        counts.update(dict.fromkeys(counts, 0))
        began, before = time.monotonic(), read_cpu_seconds(spindle)
        await asyncio.sleep(SECONDS)
        cores = (read_cpu_seconds(spindle) - before) / (time.monotonic() - began)
        failed = [each for each in viewers if each.done()]
        for task in (*viewers, reporter):
            task.cancel()
        await asyncio.gather(*viewers, reporter, return_exceptions=True)
    if failed:
        raise SystemExit(f"{len(failed)} viewers were refused: {failed[0].exception()}")
    print(
        f"{VIEWERS} viewers of one execution: {cores:.2f} of a core; {counts['events'] / SECONDS:.0f} events a second, "
        f"{counts['pages'] / SECONDS:.0f} pages of {counts['bytes'] / max(counts['pages'], 1) / 1000:.1f} kB",
        flush=True,
    )


async def follow(browser: httpx.AsyncClient, cookie: str, events: str, page: str, counts: dict[str, int]) -> None:
    """Do what the script of the page does: read the stream, and fetch the page some time after an event."""
    seen = "0"
    pending: asyncio.Task[None] | None = None

    async def refresh(pause: float) -> None:
        await asyncio.sleep(pause)
        answer = await browser.get(page, headers={"Cookie": cookie, "X-Spindle-Event": seen})
        answer.raise_for_status()
        counts["pages"] += 1
        counts["bytes"] += len(answer.content)

    headers = {"Cookie": cookie, "X-Spindle-Console": "1"}
    async with browser.stream("GET", events, headers=headers) as stream, asyncio.TaskGroup() as refreshes:
        stream.raise_for_status()
        async for line in stream.aiter_lines():
            if line.startswith("id: "):
                seen = line[4:]
            elif line.startswith("data: "):
                counts["events"] += 1
                if pending is None or pending.done():
                    pending = refreshes.create_task(refresh(REFRESH_SECONDS))


async def report(browser: httpx.AsyncClient, target: Target, job: str, execution: str) -> None:
    pages = 0
    while True:
        pages += 100
        stages = [
            {
                "key": f"s0{n}",
                "title": "extract",
                "state": "RUNNING",
                "rows": pages,
                "pages": pages,
                "selectors": [COLUMN],
            }
            for n in range(5)
        ]
        body = {"executionId": execution, "status": "RUNNING", "additionalMetrics": {"progress": {"stages": stages}}}
        answer = await browser.post(f"{job}/completion", json=body, headers={"X-API-Key": target.key})
        answer.raise_for_status()
        await asyncio.sleep(REPORT_SECONDS)


def compare_lengths(spindle: Instance, target: Target) -> None:
    """Print the size and the CPU of pages over few executions and over many of the same jobs."""
    with spindle.database.read() as session:
        newest = (
            session.query(Execution).filter_by(job_id=target.job_id).order_by(Execution.id.desc()).limit(1).one().id
        )
    project = f"/console/projects/{target.project_id}"
    job = f"{project}/jobs/{target.job_id}"
    paths = {"home": "/console", "project": project, "job": job, "execution": f"{job}/executions/{newest}"}
    store_executions(spindle, FEW, (target.job_id,))
    few = measure_pages(spindle, target, paths)
    store_executions(spindle, jobs=(target.job_id,))
    many = measure_pages(spindle, target, paths)
    for name, (cpu, wall, size) in few.items():
        ratio = many[name][0] / cpu
        print(
            f"{name}: {size / 1000:.1f} kB in {1000 * wall:.0f} ms, {1000 * cpu:.1f} ms of CPU; over 100,000 "
            f"executions {1000 * many[name][0]:.1f} ms, {ratio:.2f} of that over {FEW}",
            flush=True,
        )


def measure_pages(spindle: Instance, target: Target, paths: dict[str, str]) -> dict[str, tuple[float, float, int]]:
    """Return CPU seconds and median seconds of each page, and its bytes."""
    measured: dict[str, tuple[float, float, int]] = {}
    with httpx.Client(base_url=spindle.url, timeout=60) as client:
        headers = {"Cookie": sign_in(client, target.key)}
        for name, path in paths.items():
            client.get(path, headers=headers).raise_for_status()
            seconds, size = list[float](), 0
            before = read_cpu_seconds(spindle)
            for _ in range(REPEATS):
                began = time.perf_counter()
                size = len(client.get(path, headers=headers).content)
                seconds.append(time.perf_counter() - began)
            cpu = (read_cpu_seconds(spindle) - before) / REPEATS
            measured[name] = cpu, median(seconds), size
    return measured


if __name__ == "__main__":
    main()
