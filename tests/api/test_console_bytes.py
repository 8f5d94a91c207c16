"""What a page of the console weighs with its scripts and styles, uncompressed, also where hostile pages filled it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping

import httpx
import pyarrow as pa
import pytest

from core.infra.storage import open_storage
from core.infra.storage.protocol import failures_key, log_key
from tests.support.api import Api, Server, answered

MOST_BYTES = 120_000
REFERENCE = re.compile(r'(?:src|href)="(/console/static/[\w./]+)"')
IMPORT = re.compile(r'"\./([\w.]+)"')
PART = re.compile(r'has\("(?:#(\w+)|form\[[\w-]+\])"\)(.*?)(?=has\(|$)', re.S)  # of main.js: what few pages load
LONG = '<long> & "quoted" ' * 5_000
JOBS = 60


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[tuple[Api, httpx.Client]]:
    api = server.caller("heavy pages", "admin")
    url = str(server.client.base_url).rstrip("/")
    with httpx.Client(base_url=url, timeout=60) as client:
        client.post("/console/sign-in", data={"key": api.key}, headers={"Origin": url})
        yield api, client


def weigh(client: httpx.Client, path: str) -> Mapping[str, int]:
    """Return the bytes of the page and of all that it loads at once, by address."""
    page = client.get(path)
    assert page.status_code == 200, path
    sizes, waiting = {path: len(page.content)}, REFERENCE.findall(page.text)
    while waiting:
        address = waiting.pop()
        if address in sizes:
            continue
        text = client.get(address).text
        sizes[address] = len(text.encode())
        for name, part in PART.findall(text):
            has = f'id="{name}"' if name else "data-form"
            text = text if has in page.text else text.replace(part, "")
        waiting += [f"/console/static/{name}" for name in IMPORT.findall(text)]
    return sizes


def fill(server: Server, api: Api) -> Mapping[str, str]:
    """Make records with long texts and many columns; return the paths of their pages."""
    job = api.job("heavy")
    storage = open_storage(server.settings.storage)
    long = job.complete(job.execute(), pa.table({"title": [LONG] * 200, "price": [1.5] * 200}))
    header, line = (
        ",".join(each) for each in ([f"column {n}" for n in range(40)], [LONG[:900].replace('"', "'")] * 40)
    )
    file = {"file": ("wide.csv", "\n".join([header, *[line] * 200]).encode())}
    wide = answered(api.call("POST", "/datasets/upload", data={"name": "wide"}, files=file))["id"]
    execution = job.execute()
    failure = {"url": f"http://x.test/{LONG[:1900]}", "status": 500, "reason": "http-status", "message": LONG[:1900]}
    failures = [json.dumps(failure | {"stage": LONG[:200], "line": 1, "attempts": 1})] * 500
    lines = [json.dumps({"counts": [{"status": 500, "reason": "http-status", "pages": 500}]}), *failures]
    storage.put(failures_key(api.organization_id, execution, 1), io.BytesIO("\n".join(lines).encode()))
    log = f"2026-11-28 [error] {LONG}\n" * 150
    storage.put(log_key(api.organization_id, execution, 1), io.BytesIO(log.encode()))
    job.report(execution, "FAILED", errorMessage=LONG[:2000])
    for number in range(JOBS):
        api.post(f"/projects/id/{job.project_id}/jobs", {"name": f"{number} {LONG[:180]}", "agentId": job.agent_id})
    for _ in range(40):
        job.report(job.execute(), "FAILED", errorMessage=LONG[:2000])
    project = f"/console/projects/{job.project_id}"
    target = api.post("/cloud-credentials", {"provider": "SLACK", "name": LONG[:200], "apiKey": "https://x.test/"})[
        "id"
    ]
    for number in range(20):
        rule = {"name": f"rule_{number}", "cloudCredentialId": target, "events": ["failed"], "jobId": job.id}
        api.post(f"/projects/id/{job.project_id}/notifications", rule)
    names = ("agents", "datasets", "schedules", "notifications", "credentials", "keys", "people", "audit")
    listed = {name: f"/console/{name}" for name in names}
    return {
        "home": "/console",
        "project": project,
        "job": f"{project}/jobs/{job.id}",
        "execution": f"{project}/jobs/{job.id}/executions/{execution}",
        "long dataset": f"/console/datasets/{long}",
        "wide dataset": f"/console/datasets/{wide}",
        "agent": f"/console/agents/{job.agent_id}",
        "new agent": "/console/agents/new",
        "schedule": f"{project}/schedule",
        "rule": f"{project}/rules/of/rule_1",
        "credential": f"/console/credentials/{target}",
        "cron job": "/console/cron-jobs/new",
        "guide": "/console/guide",
        "selectors": "/console/selectors",
        **listed,
    }


@pytest.mark.long
def test_no_page_is_heavier_than_the_goal(server: Server, browser: tuple[Api, httpx.Client]) -> None:
    api, client = browser
    sizes = {name: weigh(client, path) for name, path in fill(server, api).items()}
    heavy = {name: dict(each) for name, each in sizes.items() if sum(each.values()) > MOST_BYTES}
    weights = {name: sum(each.values()) for name, each in sizes.items()}
    assert heavy == {}
    assert "/console/static/pipeline_words.js" in sizes["agent"]
    assert "/console/static/pipeline_words.js" not in sizes["execution"]
    assert min(weights[name] for name in ("execution", "long dataset", "wide dataset", "job")) > 40_000  # all is there
