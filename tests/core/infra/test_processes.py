"""A supervised process that ends is started again, after a pause that grows, and that is said."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from core.infra import processes
from core.infra.processes import Child


def test_a_child_that_ends_is_started_again_with_growing_pauses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(processes, "LONGEST_PAUSE", 0.03)
    program = "import pathlib; p = pathlib.Path('starts'); p.open('a').write('x'); print('hello'); raise SystemExit(7)"

    async def supervise() -> None:
        child = Child("part", [sys.executable, "-c", program], dict(os.environ), tmp_path)
        running = asyncio.create_task(child.keep_running())
        while len(starts.read_text() if starts.exists() else "") < 4:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        await child.stop(5)
        await running

    starts = tmp_path / "starts"
    asyncio.run(supervise())
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "part     | hello"
    again = [line.rpartition(" in ")[2] for line in said if "exited with code 7; restarting" in line]
    assert again[:3] == ["0.01 s", "0.02 s", "0.03 s"]
