"""The supervisor: it refuses what cannot work with a sentence, and leaves no process behind however it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cli.client import Connection
from cli.up import up
from tests.support.processes import command_line, descendants
from tests.support.service import PATIENCE_SECONDS, Service, free_port, wait_until


def test_a_data_folder_has_one_instance(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert up(service.data, free_port(), free_port(), "127.0.0.1") == 1
    assert capsys.readouterr().err == (
        f"Another Spindle is running on {service.data}. Stop it, or choose another --data.\n"
    )


@pytest.mark.parametrize("option", ["--port", "--ui-port"])
def test_a_taken_port_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = (port, free_port()) if option == "--port" else (free_port(), port)
        assert up(tmp_path / "data", *ports, "127.0.0.1") == 1
    sentence = f"Cannot listen on 127.0.0.1:{port} (Address already in use). Choose another {option}.\n"
    assert capsys.readouterr().err == sentence


def test_the_command_line_finds_it_by_its_data_folder(service: Service) -> None:
    assert Connection(None, None, service.data).service_url == service.base_url


@pytest.mark.long
def test_an_invalid_setting_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "SPINDLE_SECRET_KEY": "shorter", "SPINDLE_FETCH_ALLOW_NETWORKS": "home"}
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "up", "--data", tmp_path / "data"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    told = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in told] == [
        "SPINDLE_SECRET_KEY cannot be used",
        "SPINDLE_FETCH_ALLOW_NETWORKS cannot be used",
    ]
    assert "shorter" not in done.stderr


def test_requests_are_logged_in_a_file_and_not_printed(service: Service) -> None:
    service.get("/projects?limit=7")
    log = service.data / "spindle.log"
    wait_until(lambda: '"path": "/api/svc/api/projects"' in log.read_text(), PATIENCE_SECONDS)
    printed = service.log.read_text()
    assert '"level": "info"' not in printed
    assert str(log) in printed


FORKS = (
    *("api", "core.integrations.webhooks", "core.training", "dagster-daemon", "dagster-webserver"),
    *("orchestration.code_server", "orchestration.launcher"),
)


def test_its_processes_are_forks_of_one_that_has_imported_everything(service: Service) -> None:
    parent = psutil.Process(service.process.pid)
    assert parent.num_threads() == 1
    pids = {module: service.pid(module) for module in FORKS}
    assert {child.pid for child in parent.children()} >= set(pids.values())
    for module, pid in pids.items():
        memory = psutil.Process(pid).memory_full_info()
        # the rest is shared, apart from what a plugin's operations import: Arrow's threads would not survive a fork
        assert memory.uss < 0.6 * memory.rss, module
    killed = pids["core.integrations.webhooks"]
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: service.pid("core.integrations.webhooks") not in (None, killed), PATIENCE_SECONDS)
    assert psutil.Process(service.pid("core.integrations.webhooks")).ppid() == parent.pid


# other tests stop theirs by SIGTERM
@pytest.mark.long
def test_a_killed_supervisor_leaves_no_process_behind(tmp_path: Path, service: Service) -> None:
    """Beside another instance that stays untouched."""
    other = Service(tmp_path / "data").start()
    family = descendants(other.process.pid)
    assert len(family) >= 6
    other.process.kill()
    assert other.process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    wait_until(lambda: not any(command_line(pid) for pid in family), PATIENCE_SECONDS)
    assert service.get("/projects") is not None
