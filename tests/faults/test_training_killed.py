"""A kill -9 of the API and of the trainer process at any time loses no training, and begins none twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cli.data_folder import prepare
from core.infra.settings import Settings
from tests.support.ai_providers import KEY, serve_ai_providers
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, free_port, wait_until


@contextmanager
def start(settings: Settings, *modules: str) -> Iterator[None]:
    """Run modules as processes, and kill them with SIGKILL at the end."""
    environment = {
        **os.environ,
        "SPINDLE_DATA": str(settings.data),
        "SPINDLE_PORT": str(settings.api.port),
        "SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.1/32",
    }
    with (settings.data / "processes.log").open("a") as log:
        processes = [
            subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=log, stderr=log)
            for module in modules
        ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").is_success
    except httpx.TransportError:
        return False


@pytest.mark.long
def test_a_training_survives_kills_of_the_api_and_the_trainer(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, port=free_port())
    prepare(settings)
    key = (settings.data / "admin-key").read_text().strip()
    base = "/api/svc/api"
    path = f"{base}/ai-providers/providers/openai/training"
    with (
        serve_ai_providers() as providers,
        httpx.Client(
            base_url=f"http://127.0.0.1:{settings.api.port}", headers={"X-API-Key": key}, timeout=PATIENCE_SECONDS
        ) as client,
    ):
        with start(settings, "api"):
            wait_until(lambda: is_ready(client), PATIENCE_SECONDS, every=POLL_SECONDS)
            credential = {"provider": "OPENAI", "apiKey": KEY, "endpoint": providers.get_endpoint("openai")}
            client.post(f"{base}/cloud-credentials", json=credential).raise_for_status()
            rows = {"file": ("q.csv", "prompt,completion\nwhat,that\n")}
            uploaded = client.post(f"{base}/datasets/upload", files=rows, data={"name": "questions"}).json()
            started = client.post(path, json={"model": "gpt-4o-mini", "datasetId": uploaded["id"]}).json()["jobId"]
        # the API is dead: the trainer process begins the job, and is killed while it runs
        with start(settings, "core.training"):
            wait_until(lambda: len(providers.jobs) == 1, PATIENCE_SECONDS)
        providers.move("done")
        with start(settings, "api", "core.training"):
            wait_until(lambda: is_ready(client), PATIENCE_SECONDS, every=POLL_SECONDS)
            status = f"{path}/{started}/status"
            wait_until(
                lambda: client.get(status).json()["status"] not in ("PENDING", "RUNNING"),
                PATIENCE_SECONDS,
                every=POLL_SECONDS,
            )
            assert client.get(status).json()["status"] == "COMPLETED"
            assert client.get(f"{base.removesuffix('/api')}/cloud/training/health").json()["status"] == "UP"
    assert len(providers.jobs) == 1
    assert KEY not in (settings.data / "processes.log").read_text()
