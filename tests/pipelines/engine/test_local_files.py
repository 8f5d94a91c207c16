"""Rows of two runs that are moved to the same local path at the same time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pipelines.engine.local_files import move_rows
from pipelines.language.formats import Mode

MEANWHILE_SECONDS = 1.0  # in which the other run would end, if it did not wait


@pytest.mark.parametrize(("name", "step"), [("rows", "rename"), ("rows.csv", "replace")])
def test_two_first_appends_keep_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: str) -> None:
    target, move = tmp_path / "out" / name, getattr(Path, step)

    target.parent.mkdir()

    def stage(run: str) -> Path:
        staged = tmp_path / f".{run}"
        staged.mkdir()
        (staged / f"{run}.csv").write_text(f"n\n{run}\n")
        return staged

    def run(name: str) -> None:
        move_rows(stage(name), target, Mode.APPEND, "csv", target.suffix == ".csv")

    other = threading.Thread(target=run, args=("two",))

    def move_slowly(*arguments: Any) -> None:
        """Let the other run begin after this one has looked at the target, and before it moves its rows."""
        monkeypatch.setattr(Path, step, move)
        other.start()
        other.join(MEANWHILE_SECONDS)
        move(*arguments)

    monkeypatch.setattr(Path, step, move_slowly)
    run("one")
    other.join()
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    lines = [line for file in files for line in file.read_text().split()]
    assert sorted(line for line in lines if line != "n") == ["one", "two"]
