"""The sentence about a JVM that has ended: its last words, the limit of its heap, and the place of its log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.spark.java_process import JavaProcess, find_last_words

FULL = """\
2026-11-24T13:08:58.037Z ERROR Executor: Exception in task 0.0 in stage 1.0 (TID 1)
java.lang.OutOfMemoryError: Java heap space
	at org.apache.spark.unsafe.types.UTF8String.repeat(UTF8String.java:1206)
2026-11-24T13:08:58.101Z ERROR TaskSetManager: Task 0 in stage 1.0 failed 1 times; aborting job
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (FULL, "java.lang.OutOfMemoryError: Java heap space"),
        (FULL.replace(": Java heap space", ""), "java.lang.OutOfMemoryError"),
        ("2026-11-24T13:08:58.101Z ERROR DiskStore: disk full\n\tat a.b", "DiskStore: disk full"),
        ("hello of a user's function\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_last_words_are_the_full_memory_or_the_last_error(log: str, words: str | None) -> None:
    assert find_last_words(log.splitlines()) == words


@pytest.mark.long
def test_the_end_tells_heap_and_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(FULL)
    described = JavaProcess("3g", log).describe_end()
    assert "Java heap space" in described
    assert "limited to 3g" in described
    assert described.endswith(str(log))


@pytest.mark.long
def test_without_a_log_file_the_captured_lines_tell(capfd: pytest.CaptureFixture[str]) -> None:
    java = JavaProcess("1g")
    with java.capture_stderr():
        os.write(2, b"WARNING: Using incubator modules: jdk.incubator.vector\n")
        os.write(2, FULL.encode())
    assert "Java heap space" in java.describe_end()
    assert capfd.readouterr().err == FULL
