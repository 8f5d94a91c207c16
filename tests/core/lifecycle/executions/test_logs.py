from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import Storage, log_key
from core.lifecycle.executions.logs import read_execution_log
from core.tables import Execution

LINES = [
    '{"timestamp": "2026-03-01T12:00:00Z", "level": "info", "event": "started", "stages": 3}',
    "26/03/01 12:00:01 WARN NativeCodeLoader: Unable to load native-hadoop library",
    '{"timestamp": "2026-03-01T12:00:02Z", "level": "debug", "event": "page", "url": "http://x/ä b"}',
    "26/03/01 12:00:03 ERROR Executor: Exception in task 0.0",
    "java.lang.RuntimeException: broke",
    "\tat scala.Whatever(Whatever.scala:1)",
    "2026-03-01T12:00:03.123+01:00 ERROR Executor: Exception in task 0.0",
    "PythonException: Traceback (most recent call last):",
    '  File "/srv/spindle/worker.py", line 3, in run',
    "    raise ValueError()",
    "ValueError: file:/srv/data/storage/x is gone",
    '{"level": "ERROR", "event": "failed", "trace": "Traceback (most recent call last): /srv"}',
    '{"timestamp": "2026-03-01T12:00:04Z", "level": "warning", "event": "slow"}',
    '{"not an": "event"}',
]
SHOWN = [
    "2026-03-01T12:00:00Z INFO started stages=3",
    LINES[1],
    "2026-03-01T12:00:02Z DEBUG page url=http://x/ä b",
    LINES[3],
    LINES[4],
    LINES[6],
    "PythonException:",
    "ValueError: file:<server>/storage/x is gone",
    "ERROR failed",
    "2026-03-01T12:00:04Z WARN slow",
    LINES[13],
]
PRIVATE = [Path("/srv/data")]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path)


@pytest.fixture
def execution() -> Execution:
    return Execution(id="e1", organization_id="o1", attempt=1, metrics={})


def write(storage: Storage, content: bytes) -> None:
    storage.put(log_key("o1", "e1", 1), io.BytesIO(content))


def test_lines_are_text_with_their_level_and_without_stack_traces(storage: Storage, execution: Execution) -> None:
    write(storage, "\n".join(LINES).encode())
    assert read_execution_log(storage, execution, private=PRIVATE) == SHOWN


@pytest.mark.parametrize(
    ("level", "lines"),
    [("DEBUG", range(11)), ("INFO", (0, 1, *range(3, 11))), ("WARN", (1, *range(3, 11))), ("ERROR", range(3, 9))],
)
def test_level_is_the_least_that_is_shown(storage: Storage, execution: Execution, level: str, lines: list[int]) -> None:
    write(storage, "\n".join(LINES).encode())
    assert read_execution_log(storage, execution, level=level, private=PRIVATE) == [SHOWN[line] for line in lines]


def test_tail_counts_the_lines_shown(storage: Storage, execution: Execution) -> None:
    write(storage, "\n".join(LINES).encode())
    assert read_execution_log(storage, execution, tail=2) == SHOWN[-2:]
    assert read_execution_log(storage, execution, tail=1, level="ERROR") == ["ERROR failed"]
    assert read_execution_log(storage, execution, tail=0) == []


def test_executors_live_in_the_driver(storage: Storage, execution: Execution) -> None:
    write(storage, b"x")
    assert read_execution_log(storage, execution, pod_type="executor") == []


def test_before_the_driver_wrote_anything(storage: Storage, execution: Execution) -> None:
    assert read_execution_log(storage, execution) == []


def test_a_huge_log_with_bytes_that_are_no_text(storage: Storage, execution: Execution) -> None:
    write(storage, b"\xff" * 10_000_000 + b"\nlast\n")
    assert read_execution_log(storage, execution, tail=1) == ["last"]


def test_a_line_that_is_nested_too_deep_is_a_line(storage: Storage, execution: Execution) -> None:
    line = '{"event": ' * 100_000
    write(storage, line.encode())
    assert read_execution_log(storage, execution) == [line]


def test_warnings_about_the_completion_follow_the_lines_of_its_attempt(storage: Storage, execution: Execution) -> None:
    write(storage, "\n".join(LINES[:1]).encode())
    execution.metrics = {"warnings": ["Nothing was published."]}
    execution.completed_at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    warning = "2026-03-01T12:00:00Z WARN Nothing was published."
    assert read_execution_log(storage, execution) == [SHOWN[0], warning]
    assert read_execution_log(storage, execution, level="WARN") == [warning]
    assert read_execution_log(storage, execution, level="ERROR") == []
    assert read_execution_log(storage, execution, pod_type="executor") == []
    execution.attempt = 2
    assert read_execution_log(storage, execution, attempt=1) == [SHOWN[0]]
