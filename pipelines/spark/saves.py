"""What save stages write: each to a folder of its own, seen by others only when the run is complete."""

from __future__ import annotations

import shutil
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from pipelines.errors import RunError
from pipelines.planning.context import Files, RunContext
from pipelines.planning.stage import Mode, Sink
from pipelines.spark.output import Written, seal, tidy


@dataclass(frozen=True, slots=True)
class Saved:
    """Rows saved under a name of the project's storage, in `folder` below the attempt's folder for saves."""

    path: str
    mode: Mode
    format: str
    folder: str
    written: Written


class Saves:
    """Of one run. Local paths are written beside where they belong and moved there by `commit`."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._saved: list[Saved] = []
        self._moves: list[Callable[[], None]] = []

    def write(self, stage: Sink, rows: DataFrame) -> None:
        """Writes the rows; from here on the run itself loads them by the stage's path. Raises RunError."""
        target = self._context.local_target(stage.path)
        earlier = self._earlier(stage, target)
        folder = self._beside(stage, target) if target else f"{self._context.saves_folder}/{len(self._saved) + 1}"
        stage.write(rows, folder)
        if target:
            tidy(folder)
        else:
            self._saved.append(Saved(stage.path, stage.mode, stage.format, Path(folder).name, seal(rows, folder)))
        self._context.saved[stage.path] = Files((*earlier, folder), stage.format)

    def commit(self) -> tuple[Saved, ...]:
        """Puts local files in their places; returns what lies in the project's storage, for the service to publish."""
        for move in self._moves:
            move()
        return tuple(self._saved)

    def _earlier(self, stage: Sink, target: Path | None) -> tuple[str, ...]:
        """The files that are appended to."""
        if stage.mode is Mode.OVERWRITE or not (target.exists() if target else stage.path in self._context.inputs):
            return ()
        return self._context.files(stage.path).paths

    def _beside(self, stage: Sink, target: Path) -> str:
        staged = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        # whatever ends the run before its end, nothing half-written stays
        leftover = weakref.finalize(self, shutil.rmtree, staged, ignore_errors=True)

        def move() -> None:
            _move(staged, target, stage.mode)
            leftover()

        self._moves.append(move)
        return str(staged)


def _move(staged: Path, target: Path, mode: Mode) -> None:
    if mode is Mode.APPEND and target.is_dir():
        for file in sorted(staged.iterdir()):  # Spark's names are unique
            file.rename(target / file.name)
    elif mode is Mode.APPEND and target.exists():
        raise RunError(f"'{target}' is a file; rows can be appended to a folder only")
    else:
        earlier = target.with_name(f"{staged.name}.earlier")
        if target.exists():
            target.rename(earlier)
        staged.rename(target)
        _remove(earlier)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
