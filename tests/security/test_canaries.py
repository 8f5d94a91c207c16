"""Twelve secrets go through a real execution: none of them is in the clear anywhere but in the driver's environment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from core.infra.settings import Settings
from core.lifecycle.executions.tokens import execution_token
from core.tables import Execution
from tests.support.processes import command_line, descendants
from tests.support.service import PATIENCE_SECONDS, Json, Service, wait_until
from tests.support.site import GatedSite

pytestmark = pytest.mark.long

CREDENTIALS: dict[str, tuple[str, ...]] = {
    "GOOGLE_SEARCH": ("apiKey",),
    "OPENAI": ("apiKey",),
    "HUGGING_FACE": ("apiKey",),
    "STEEL_DEV": ("apiKey",),
    "AWS": ("accessKeyId", "secretAccessKey"),
    "GCP": ("apiSecret",),
    "AZURE": ("apiKey", "apiSecret"),
}
PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
  - {{stage: wget, args: ["{url}?key=${{OPENAI_API_KEY}}&other=${{HF_TOKEN}}"]}}
spindle: {{engine: {engine}, timeout: 180, login: members}}
"""
KEPT_ON_PURPOSE = {"admin-key", "secret-key"}  # mode 0600, and said to be there


class Watch:
    """Samples the command lines of all processes, and the Spark UI of drivers, until it is left."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self.seen: set[str] = set()

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.05):
            self.seen |= {" ".join(command_line(pid)) for pid in descendants(self._service.process.pid)}


@pytest.fixture
def ids(service: Service) -> Iterator[list[str]]:
    """The credentials of the test, which are deleted: others would be executed with them."""
    ids: list[str] = []
    yield ids
    with service.client() as client:
        for each in ids:
            client.delete(f"/cloud-credentials/id/{each}").raise_for_status()


@pytest.mark.gate
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_no_secret_is_found_after_a_real_execution(
    service: Service, ids: list[str], engine: str, site: GatedSite
) -> None:
    canaries: dict[str, str] = {}
    answers: list[str] = []
    with service.client() as client, Watch(service) as watch:

        def call(method: str, path: str, body: Any = None, **headers: str) -> Any:
            answer = client.request(method, path, json=body, headers=headers)
            assert answer.is_success, answer.text
            answers.append(answer.text)
            return answer.json()

        ids += [store(call, canaries, provider, fields) for provider, fields in CREDENTIALS.items()]
        ids.append(store_login(call, canaries))
        callers_key = canaries.setdefault("X-Encryption-Key", canary())
        job = service.make_job(PIPELINE.format(url=site.url, engine=engine))
        made = client.post("/auth/api-keys", json={"name": "canary", "scopes": ["jobs:execute"]}).json()
        canaries["API key"] = made["key"]
        hook = client.post(f"/projects/id/{job.project_id}/webhooks", json={"url": f"{site.url}hook"})
        assert hook.is_success, hook.text
        canaries.update({name: value for name, value in hook.json().items() if name.lower().endswith("secret")})
        headers = {"X-Encryption-Key": callers_key}
        execution = call("POST", f"{job.path}/execute", {"cloudCredentialIds": ids}, **headers)["executionId"]
        site.wait_for_visitor()
        canaries["execution token"] = execution_token(Settings(data=service.data), execution, 1)
        answers += spark_pages(service, execution)
        site.open()
        status = service.wait(job, execution, seconds=150)
        assert status["status"] == "COMPLETED", status
        answers += read_everything(client, job.project_id, job.job_id, execution)
        answers.append(json.dumps(service.runs(execution)))
        scratch = service.data / "scratch"  # the driver reports its end, and then ends
        wait_until(lambda: not [each for each in scratch.iterdir() if execution in each.name], PATIENCE_SECONDS)
    assert len(canaries) >= 12
    assert found(canaries, {"an answer": "\n".join(answers).encode()}) == []
    assert found(canaries, {"a command line": "\n".join(watch.seen).encode()}) == []
    written = service.read_files()
    assert found(canaries, {path: written[path] for path in written if Path(path).name not in KEPT_ON_PURPOSE}) == []


def store(call: Any, canaries: dict[str, str], provider: str, fields: tuple[str, ...]) -> str:
    """A credential of that provider; the id."""
    secrets = {field: canaries.setdefault(f"{provider} {field}", canary()) for field in fields}
    return call("POST", "/cloud-credentials", {"provider": provider, **secrets})["id"]


def store_login(call: Any, canaries: dict[str, str]) -> str:
    """A login with a cookie and a token in local storage; the id."""
    cookie, token = (canaries.setdefault(f"login {kind}", canary()) for kind in ("cookie", "token"))
    cookies = [{"name": "sid", "value": cookie, "domain": "127.0.0.1", "path": "/"}]
    stored = [{"name": "state", "value": json.dumps({"token": token})}]
    state = {"cookies": cookies, "origins": [{"origin": "http://127.0.0.1", "localStorage": stored}]}
    body = {"name": "members", "provider": "LOGIN", "apiSecret": json.dumps(state)}
    return call("POST", "/cloud-credentials", body)["id"]


def canary() -> str:
    return f"canary{uuid4().hex}"


def spark_pages(service: Service, execution: str) -> list[str]:
    """The pages of the driver's Spark UI that show its environment and its steps, where it has one."""
    with service.database() as database, database.read() as session:
        url = session.get_one(Execution, execution).spark_ui_url
    if not url:
        return []
    pages = ("environment/", "jobs/", "stages/", "SQL/", "api/v1/applications")
    return [httpx.get(f"{url}/{page}", timeout=PATIENCE_SECONDS, follow_redirects=True).text for page in pages]


def read_everything(client: httpx.Client, project: str, job: str, execution: str) -> list[str]:
    """All that a client may read of the execution and around it."""
    own = f"/projects/id/{project}/jobs/{job}"
    paths = ("", "/executions", f"/executions/{execution}", f"/executions/{execution}/logs?tail=10000", "/tasks")
    lists = ("/projects", "/agents", "/cloud-credentials", "/auth/api-keys", f"/projects/id/{project}/webhooks")
    texts = [client.get(path).text for path in (*(own + path for path in paths), *lists)]
    return [*texts, client.get(f"{own}/executions/{execution}/events").text]  # which ends: the execution has


def found(canaries: Json, places: dict[str, bytes]) -> list[str]:
    return [
        f"{name} in {place}"
        for place, content in places.items()
        for name, value in canaries.items()
        if value.encode() in content
    ]
