"""bin/demo, as a person runs it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.service import PATIENCE_SECONDS, wait_until

CLONE = Path(__file__).parents[2]


def demo(data: str) -> subprocess.CompletedProcess[str]:
    command = ["bin/demo", "--once", "--yes", "--data", data]
    return subprocess.run(command, cwd=CLONE, capture_output=True, text=True, timeout=400, check=False)


@pytest.fixture
def taken_port() -> Generator[int]:
    """The API's usual port, in use by us or by somebody else."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", 8080))
            holder.listen()
        except OSError:
            pass  # somebody else has it, which is as good
        yield 8080


def processes_with(text: str) -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # ended while we looked
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if text in line]


@pytest.mark.gate
@pytest.mark.long
def test_the_demo_prints_rows_and_leaves_no_process(tmp_path: Path, taken_port: int) -> None:
    data = str(tmp_path / "data")
    done = demo(data)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Port {taken_port} is taken: the API is on" in done.stdout
    assert "125 rows, 120 of them with a page" in done.stdout
    assert "The Salt Road" in done.stdout
    assert "5 broken links" in done.stdout
    assert done.stdout.count(": the server answered 4") == 4
    wait_until(lambda: not processes_with(data), PATIENCE_SECONDS)


@pytest.mark.long
def test_without_rows_the_exit_code_is_1() -> None:
    done = demo("/dev/null/data")
    assert done.returncode == 1
    assert "/dev/null/data cannot be the data folder: Not a directory. Choose another --data." in done.stdout
