"""The copy of a pod's log: over lost connections, with messages in a file of their own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from urllib3.exceptions import ReadTimeoutError

from driver.messages import Boundary
from orchestration.compute.kubernetes.pod_log import PodLog

MARK, OTHER_MARK = "a" * 64, "b" * 64
MESSAGE = json.dumps({"__dagster_pipes_version": "0.1", "method": "closed", "params": {}})


def make_line(second: int, text: str) -> bytes:
    return f"2026-11-26T10:00:{second:02}.000000000Z {text}\n".encode()


class PlayedStream:
    """Parts of an answer; an exception among them is raised."""

    def __init__(self, *parts: bytes | Exception) -> None:
        self._parts = parts

    def stream(self) -> Iterator[bytes]:
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            yield part

    def close(self) -> None: ...


class PlayedCluster:
    def __init__(self, *streams: PlayedStream) -> None:
        self._streams = [*streams]
        self.asked: list[int | None] = []

    def open_log(self, name: str, *, follow: bool = False, since_seconds: int | None = None) -> PlayedStream:
        self.asked.append(since_seconds)
        return self._streams.pop(0)

    def find_pod(self, name: str) -> dict[str, Any]:
        return {"status": {"phase": "Succeeded"}}


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "driver.log"


def copy(cluster: PlayedCluster, path: Path, **options: Any) -> PodLog:
    return PodLog(cluster, "pod", path, path.with_name("messages.jsonl"), MARK, **options)  # pyright: ignore[reportArgumentType]


def test_a_lost_connection_neither_loses_nor_repeats_lines(log_path: Path) -> None:
    lost = ReadTimeoutError(None, "/log", "silent")  # pyright: ignore[reportArgumentType]
    cut = make_line(2, "two")
    first = PlayedStream(make_line(1, "one") + cut[:9], cut[9:] + make_line(3, "three")[:-4], lost)
    again = PlayedStream(*(make_line(second, text) for second, text in enumerate(("one", "two", "three", "four"), 1)))
    cluster = PlayedCluster(first, again)
    log = copy(cluster, log_path)
    log.start()
    log.finish(10)
    assert log_path.read_text().splitlines() == ["one", "two", "three", "four"]
    assert cluster.asked[0] is None
    assert cluster.asked[1] is not None


def test_only_lines_with_the_mark_are_messages(log_path: Path) -> None:
    lines = (f"{MARK}{MESSAGE}", MESSAGE, f"{OTHER_MARK}{MESSAGE}", f"text {MARK}{MESSAGE}")
    log = copy(PlayedCluster(PlayedStream(*(make_line(number, text) for number, text in enumerate(lines)))), log_path)
    log.start()
    log.finish(10)
    assert log_path.with_name("messages.jsonl").read_text() == f"{MESSAGE}\n"
    assert log_path.read_text().splitlines() == list(lines[1:])


def test_a_log_without_its_run_is_copied_without_messages(log_path: Path) -> None:
    log_path.write_text("an older copy\n")
    stream = PlayedStream(make_line(1, "one"), make_line(2, f"{MARK}{MESSAGE}"), make_line(3, "last")[:-1])
    copy(PlayedCluster(stream), log_path).copy_once()
    assert log_path.read_text() == "one\nlast"


def test_a_log_of_several_executions_is_copied_in_part(log_path: Path) -> None:
    first, second = (
        [Boundary().format(mark).strip(), f"of {mark[0]}", f"{mark}{MESSAGE}", Boundary(code).format(mark).strip()]
        for mark, code in ((OTHER_MARK, 0), (MARK, 1))
    )
    forged = Boundary(0).format("c" * 64).strip()
    lines = [*first, "of nobody", *second[:2], forged, *second[2:], "later"]
    log = copy(
        PlayedCluster(PlayedStream(*(make_line(number, text) for number, text in enumerate(lines)))),
        log_path,
        has_begun=False,
        since=time.time(),
    )
    log.start()
    log.finish(10)
    assert log.exit_code == 1
    assert log_path.read_text().splitlines() == ["of a", forged]
    assert log_path.with_name("messages.jsonl").read_text() == f"{MESSAGE}\n"
