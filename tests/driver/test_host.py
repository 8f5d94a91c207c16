"""A driver that serves executions of an organization one after another, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from core.infra.settings import Settings
from driver.host_folder import ENVIRONMENT_FILE, HOST_FILE, SPEC_FILE, HostSpec, TlsSpec
from driver.messages import MARK_VARIABLE, MARKED_LINE, Boundary
from driver.transport import HostRequest
from orchestration.compute.kubernetes.channel import build_channel_files, send_execution
from pipelines.contract.request import RunRequest
from tests.support.driver import SECRET, spec
from tests.support.service import CLONE, PATIENCE_SECONDS, free_port, wait_until
from tests.support.site import Site
from tests.support.webhook_receiver import Receiver

POD = "spindle-0190-1"
FAILING = """
fetch: {url: "${BASE}/missing"}
pipeline: [{stage: extract, args: [{selector: h1, as: title}]}]
options: {pages: {failures: fail}}
"""
PAGES = {"/": "<a href=/1>1</a>", "/1": "<h1>one</h1>"}


class PodProcess:
    """The driver's process, and what it has written."""

    def __init__(self, folder: Path, settings: Settings, first: HostRequest) -> None:
        self._settings = settings
        self.port = free_port()
        self.scratch = folder / "scratch"
        mounted = folder / "mounted"
        for each in (self.scratch, mounted):
            each.mkdir()
        files = dict(build_channel_files(settings, POD))
        host = HostSpec.model_validate_json(files[HOST_FILE])
        tls = TlsSpec(token=host.tls.token if host.tls else "", port=self.port)
        files[HOST_FILE] = host.model_copy(update={"tls": tls}).model_dump_json(by_alias=True)
        files[SPEC_FILE] = first.spec.to_json()
        files[ENVIRONMENT_FILE] = json.dumps(first.environment)
        for name, text in files.items():
            (mounted / name).write_text(text)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "driver", "--host", str(mounted)],
            cwd=self.scratch,
            env={**os.environ, "PYTHONPATH": str(CLONE), "TMPDIR": str(self.scratch)},
            stderr=subprocess.PIPE,
        )
        self.lines: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        with self.process.stderr as lines:
            for line in lines:
                self.lines.append(line)

    def await_end(self, mark: str) -> int:
        """Wait for the end of the execution with this mark; return its exit code."""
        wait_until(lambda: self._find_end(mark) is not None or self.process.poll() is not None, PATIENCE_SECONDS)
        code = self._find_end(mark)
        assert code is not None, b"".join(self.lines).decode()
        return code

    def _find_end(self, mark: str) -> int | None:
        marked = (found for line in self.lines if (found := MARKED_LINE.fullmatch(line)))
        ends = (Boundary.parse(each[2]) for each in marked if each[1].decode() == mark)
        return next((each.exit_code for each in ends if each and each.exit_code is not None), None)

    def send_execution(self, request: HostRequest) -> bool:
        return send_execution(self._settings, POD, "127.0.0.1", request, self.port)

    def wait(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code


@contextmanager
def start(folder: Path, first: HostRequest, **changes: Any) -> Iterator[PodProcess]:
    settings = Settings(data=folder, secret_key=32 * "k", **changes)  # pyright: ignore[reportArgumentType]
    driver = PodProcess(folder, settings, first)
    try:
        yield driver
    finally:
        driver.process.kill()
        driver.wait()


def make_request(tmp_path: Path, site: Site, receiver: Receiver, name: str, **changes: Any) -> HostRequest:
    """An execution; its mark is made of the last letter of its name."""
    content = spec(tmp_path, receiver.url, executionId=name, output={"path": str(tmp_path / name)}, **changes)
    content["parameters"] = {"BASE": site.url}
    environment = {"SPINDLE_EXECUTION_TOKEN": SECRET, MARK_VARIABLE: get_mark(name), f"ONLY_{name}": "1"}
    return HostRequest(spec=RunRequest.model_validate(content), environment=environment)


def get_mark(name: str) -> str:
    return name[-1] * 64


def read_titles(tmp_path: Path, name: str) -> list[str]:
    return pq.read_table(tmp_path / name).to_pydict()["title"]


def list_reports(receiver: Receiver, name: str) -> list[str]:
    bodies = [each.payload for each in receiver.messages]
    return [each["status"] for each in bodies if each["executionId"] == name]


@pytest.fixture(autouse=True)
def pages(site: Site) -> None:
    site.serve(PAGES)


def test_it_serves_one_execution_after_another(tmp_path: Path, site: Site, receiver: Receiver) -> None:
    with start(tmp_path, make_request(tmp_path, site, receiver, "exec-a"), driver_executions=3) as driver:
        assert driver.await_end(get_mark("exec-a")) == 0
        assert driver.send_execution(make_request(tmp_path, site, receiver, "exec-b", inputs={}, pipelineYaml=FAILING))
        assert driver.await_end(get_mark("exec-b")) == 1
        assert driver.send_execution(make_request(tmp_path, site, receiver, "exec-c"))
        assert driver.wait() == 0, "it has served its executions"
    for name in ("exec-a", "exec-c"):
        assert read_titles(tmp_path, name) == ["one"]
        assert list_reports(receiver, name)[-1] == "COMPLETED"
    assert list_reports(receiver, "exec-b")[-1] == "FAILED"
    assert not [*driver.scratch.iterdir()]


def test_it_ends_when_nobody_has_an_execution_for_it(tmp_path: Path, site: Site, receiver: Receiver) -> None:
    first = make_request(tmp_path, site, receiver, "exec-a")
    with start(tmp_path, first, driver_idle_minutes=0.001) as driver:
        assert driver.await_end(get_mark("exec-a")) == 0
        assert driver.wait() == 0
        assert not driver.send_execution(make_request(tmp_path, site, receiver, "exec-b"))


def test_it_is_terminated_while_it_waits(tmp_path: Path, site: Site, receiver: Receiver) -> None:
    with start(tmp_path, make_request(tmp_path, site, receiver, "exec-a")) as driver:
        driver.await_end(get_mark("exec-a"))
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 128 + signal.SIGTERM


def test_it_is_terminated_in_a_later_execution(tmp_path: Path, site: Site, receiver: Receiver) -> None:
    with start(tmp_path, make_request(tmp_path, site, receiver, "exec-a")) as driver:
        driver.await_end(get_mark("exec-a"))
        site.hold({"/1"})
        before = site.requests["/1"]
        assert driver.send_execution(make_request(tmp_path, site, receiver, "exec-b"))
        wait_until(lambda: site.requests["/1"] > before, PATIENCE_SECONDS)
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 128 + signal.SIGTERM
        site.hold(())
    assert driver._find_end(get_mark("exec-b")) is None
    assert list_reports(receiver, "exec-b")[-1] == "FAILED"


@pytest.mark.long
def test_it_ends_after_an_execution_that_has_grown_over_to_spark(
    tmp_path: Path, site: Site, receiver: Receiver
) -> None:
    pages = {f"/{each}": f"<h1>{each}</h1>" for each in range(12)}
    site.serve({"/": "".join(f"<a href={each}>link</a>" for each in pages), **pages})
    first = make_request(tmp_path, site, receiver, "exec-a", growth={"pages": 5})
    with start(tmp_path, first) as driver:
        assert driver.wait() == 0
    assert driver._find_end(get_mark("exec-a")) is None
    assert b"goes on with Spark" in b"".join(driver.lines)
    assert len(read_titles(tmp_path, "exec-a")) == len(pages)
    assert list_reports(receiver, "exec-a")[-1] == "COMPLETED"


@pytest.mark.long
def test_its_spark_serves_the_next_execution(tmp_path: Path, site: Site, receiver: Receiver) -> None:
    """Executions without Spark may come before and after those with it."""
    with start(tmp_path, make_request(tmp_path, site, receiver, "exec-a")) as driver:
        driver.await_end(get_mark("exec-a"))
        java = []
        for name, has_spark in (("exec-b", True), ("exec-c", True), ("exec-d", False)):
            assert driver.send_execution(make_request(tmp_path, site, receiver, name, beginsWithSpark=has_spark))
            assert driver.await_end(get_mark(name)) == 0
            assert read_titles(tmp_path, name) == ["one"]
            java.append([each for each in psutil.Process(driver.process.pid).children(True) if "java" in each.name()])
        (started,) = java[0]
        assert java == [[started]] * 3
        variables = started.environ()
        assert not [each for each in variables if each.startswith("ONLY_") or each == "SPINDLE_EXECUTION_TOKEN"]
        driver.process.send_signal(signal.SIGTERM)
        driver.wait()
        wait_until(lambda: not started.is_running(), PATIENCE_SECONDS)
