"""The host of forks, as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.infra.pidfile import hold_pidfile, is_alive
from driver.host_folder import HOST_FILE, SOCKET, HostSpec
from driver.transport import HostRequest, send_to_socket
from pipelines.contract.request import RunRequest
from tests.support.driver import SECRET, spec
from tests.support.service import CLONE, PATIENCE_SECONDS, wait_until
from tests.support.site import Site
from tests.support.webhook_receiver import Receiver


@pytest.fixture
def host(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", "-m", "driver", "--host", str(tmp_path)]
    (tmp_path / HOST_FILE).write_text(HostSpec().model_dump_json(by_alias=True))
    variables = {**os.environ, "PYTHONPATH": str(CLONE), "OPENBLAS_NUM_THREADS": "1"}
    variables["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdin=subprocess.PIPE) as process:
        wait_until((tmp_path / SOCKET).exists, PATIENCE_SECONDS)
        yield process
        process.communicate()


def test_only_the_fork_knows_the_secrets_of_its_execution(
    host: subprocess.Popen[bytes], tmp_path: Path, site: Site, receiver: Receiver
) -> None:
    site.serve({"/": "<a href=/1>1</a>", "/1": "<h1>one</h1>"})
    content = spec(tmp_path, receiver.url, output={"path": str(tmp_path / "output")})
    content["parameters"] = {"BASE": site.url}
    environment = {"SPINDLE_EXECUTION_TOKEN": SECRET, "TMPDIR": str(tmp_path)}
    request = HostRequest(spec=RunRequest.model_validate(content), environment=environment)
    with hold_pidfile(tmp_path / "pid") as lock, (tmp_path / "log").open("wb") as log:
        assert send_to_socket(tmp_path / SOCKET, request, log.fileno(), lock)
    assert int((tmp_path / "pid").read_text()) != host.pid
    wait_until(lambda: not is_alive(tmp_path / "pid"), PATIENCE_SECONDS)
    assert pq.read_table(tmp_path / "output").to_pydict()["title"] == ["one"]
    assert receiver.messages[-1].payload["status"] == "COMPLETED"
    assert not find_in_memory(host.pid, SECRET.encode())


def test_it_has_one_thread_and_ends_with_its_keeper(host: subprocess.Popen[bytes]) -> None:
    assert len([*Path(f"/proc/{host.pid}/task").iterdir()]) == 1
    assert find_in_memory(host.pid, b"driver.fork_host"), "its memory can be read"
    host.communicate()
    assert host.returncode == 0


def find_in_memory(pid: int, text: bytes) -> bool:
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    parts = (re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line) for line in maps)
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for part in filter(None, parts):
            start, end = int(part[1], 16), int(part[2], 16)
            memory.seek(start)
            if text in memory.read(end - start):
                return True
    return False
