"""A process that is stopped is not ready, is killed after half a minute, and is started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.support.service import PATIENCE_SECONDS, Service, serve_service, wait_until

pytestmark = pytest.mark.long


def test_stopped_processes_are_started_again(tmp_path: Path) -> None:
    with serve_service(tmp_path) as service:
        assert ask_readiness(service).status_code == 200
        stopped = {name: find_pid(service, name) for name in ("dagster-daemon", "orchestration.launcher")}
        for pid in stopped.values():
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: ask_readiness(service).status_code == 503, 45, every=0.2)
        reason = ask_readiness(service).json()["reason"]
        assert "has not moved for" in reason
        wait_until(lambda: ask_readiness(service).status_code == 200, PATIENCE_SECONDS, every=0.5)
        for name, pid in stopped.items():
            assert find_pid(service, name) != pid
        assert (service.data / "spindle.log").read_text().count("hangs: it gave no sign of life for 30 s") == 2


def ask_readiness(service: Service) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{service.port}/readyz")


def find_pid(service: Service, name: str) -> int:
    pid = service.pid(name)
    assert pid is not None
    return pid
