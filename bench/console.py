"""The console under viewers: `python -m bench.console [VIEWERS [SECONDS]]`, on SQLite.

CPU of the API while people watch an execution that reports each second, then its job, its project and the home page,
all with keys of one organization; first paint of pages in Chromium; size and time of pages; and CPU of pages over 100
executions and over 100,000.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from statistics import median

import httpx
import psutil
from playwright.sync_api import Page, sync_playwright

from bench.api import IDLE_SECONDS, Instance, Target, run_instance, store_executions
from bench.service import describe_machine
from core.definitions.identity.api_keys import create_key
from core.tables import Execution, Job, Project
from tests.browser.test_dagster_ui import CHROMIUM, FLAGS

VIEWERS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 30
KEYS = 20
WARM_UP_SECONDS = 5
REPORT_SECONDS, REFRESH_SECONDS = 1.0, 3.0
REPEATS, FEW, PAINTS = 60, 100, 12
PAINTED = """() => new Promise((tell) => new PerformanceObserver((found) => {
  for (const each of found.getEntriesByName("first-contentful-paint")) tell(each.startTime);
}).observe({ type: "paint", buffered: true }))"""
COLUMN = {"selector": ".price", "column": "price", "pages": 100, "empty": 3, "unfit": 0}


def main() -> None:
    print(describe_machine())
    with run_instance(None, workers=1) as spindle:
        target = spindle.targets[0]
        asyncio.run(watch(spindle, target))
        paint(spindle, target)
        compare_lengths(spindle, target)


def read_cpu_seconds(spindle: Instance) -> float:
    process = psutil.Process(spindle.process.pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def sign_in(client: httpx.Client, key: str) -> str:
    """Return the cookie of a new session; a session that signs in again would end."""
    client.cookies.clear()
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
    project, job = target.path, f"{target.path}/jobs/{target.job_id}"
    cookies, execution = begin(spindle, target, keys, job)
    streams = {f"{job}/executions/{execution}": "execution", job: "job", project: "project", "": "home"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_SECONDS)
    async with httpx.AsyncClient(base_url=spindle.url, timeout=60, limits=limits) as browser:
        reporter = asyncio.create_task(report(browser, target, job, execution))
        for path, name in streams.items():
            page = f"/console{path.removeprefix('/api/svc/api').replace('/id/', '/')}"
            events = f"{path if name == 'execution' else project}/events" if path else None
            await watch_page(spindle, browser, cookies, name, page, events)
        reporter.cancel()
        await asyncio.gather(reporter, return_exceptions=True)


async def watch_page(
    spindle: Instance, browser: httpx.AsyncClient, cookies: list[str], name: str, page: str, events: str | None
) -> None:
    counts = {"events": 0, "pages": 0, "bytes": 0}
    viewers = [
        asyncio.create_task(follow(browser, cookies[n % KEYS], events, page, counts, REFRESH_SECONDS * n / VIEWERS))
        for n in range(VIEWERS)
    ]
    await asyncio.sleep(WARM_UP_SECONDS)
    counts.update(dict.fromkeys(counts, 0))
    began, before = time.monotonic(), read_cpu_seconds(spindle)
    await asyncio.sleep(SECONDS)
    cores = (read_cpu_seconds(spindle) - before) / (time.monotonic() - began)
    failed = [each for each in viewers if each.done()]
    for task in viewers:
        task.cancel()
    await asyncio.gather(*viewers, return_exceptions=True)
    if failed:
        raise SystemExit(f"{len(failed)} viewers were refused: {failed[0].exception()!r}")
    print(
        f"{VIEWERS} viewers of one {name}: {cores:.2f} of a core; {counts['events'] / SECONDS:.0f} events a second, "
        f"{counts['pages'] / SECONDS:.0f} pages of {counts['bytes'] / max(counts['pages'], 1) / 1000:.1f} kB",
        flush=True,
    )


async def follow(
    browser: httpx.AsyncClient, cookie: str, events: str | None, page: str, counts: dict[str, int], offset: float
) -> None:
    """Do what the script of the page does: read the stream and fetch the page some time after an event, or by time."""
    seen = "0"
    pending: asyncio.Task[None] | None = None

    async def refresh(pause: float) -> None:
        await asyncio.sleep(pause)
        answer = await get(browser, page, {"Cookie": cookie, "X-Spindle-Event": seen})
        counts["pages"] += 1
        counts["bytes"] += len(answer.content)

    if events is None:
        await asyncio.sleep(offset)
        while True:
            await refresh(REFRESH_SECONDS)
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


async def get(browser: httpx.AsyncClient, page: str, headers: dict[str, str]) -> httpx.Response:
    """Return a page; ask again, as browsers do, where the server closed the idle connection at that moment."""
    with suppress(httpx.ReadError, httpx.RemoteProtocolError):
        return (await browser.get(page, headers=headers)).raise_for_status()
    return (await browser.get(page, headers=headers)).raise_for_status()


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
        headers = {"X-API-Key": target.key, "Connection": "close"}
        (await browser.post(f"{job}/completion", json=body, headers=headers)).raise_for_status()
        await asyncio.sleep(REPORT_SECONDS)


def list_pages(spindle: Instance, target: Target) -> dict[str, str]:
    """Return the paths of the pages that are measured, by their names."""
    with spindle.database.read() as session:
        newest = (
            session.query(Execution).filter_by(job_id=target.job_id).order_by(Execution.id.desc()).limit(1).one().id
        )
        agent = session.get_one(Job, target.job_id).agent_id
    project = f"/console/projects/{target.project_id}"
    job = f"{project}/jobs/{target.job_id}"
    others = {name: f"/console/{name}" for name in ("agents", "datasets", "schedules")}
    own = {"home": "/console", "project": project, "job": job, "execution": f"{job}/executions/{newest}"}
    return {**own, "agent": f"/console/agents/{agent}", **others}


def paint(spindle: Instance, target: Target) -> None:
    """Print the first contentful paint of each page in Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.goto(f"{spindle.url}/console")
        page.get_by_label("API key").fill(target.key)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Running now").wait_for()
        for name, path in list_pages(spindle, target).items():
            found = [measure_paint(page, spindle.url + path) for _ in range(PAINTS)][1:]
            print(f"{name}: first paint after {median(found):.0f} ms, at most {max(found):.0f} ms", flush=True)
        browser.close()


def measure_paint(page: Page, url: str) -> float:
    """Return milliseconds to the first contentful paint."""
    page.goto(url)
    return page.evaluate(PAINTED)


def compare_lengths(spindle: Instance, target: Target) -> None:
    """Print the size and the CPU of pages over few executions and over many of the same jobs."""
    paths = list_pages(spindle, target)
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
