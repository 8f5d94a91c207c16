"""The operator's own trainer: a command that runs on this machine."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import psutil

from core.errors import BadInput, Unavailable
from core.infra.pidfile import is_alive
from core.infra.settings import Settings
from core.tables.states import State
from core.training.providers.client import get_whole
from core.training.providers.protocol import ExampleFormat, Job, JobRequest, Model, ModelFile, Progress, ProviderRefused
from core.training.runner import CANCEL, END, LOG, MARK, PID, SPEC, RunEnd, RunSpec

OUTPUT = "output"
START_SECONDS = 15.0
TAIL_BYTES = 2**16
MAX_LINES = 10_000
LAST_LINES = 3
MAX_REASON = 500
CHUNK_BYTES = 2**20
UNSET = (
    "There is no local trainer. The operator sets SPINDLE_TRAINER to a command with {model}, {train}, {validation} and "
    "{output}, and SPINDLE_TRAINER_MODELS to the names that {model} may have."
)


class LocalProvider:
    """Runs the command of the settings in a folder for every training; raises Unavailable without the settings."""

    example_format: ClassVar[ExampleFormat] = "rows"

    def __init__(self, settings: Settings) -> None:
        if settings.trainer.command is None or not settings.trainer.models:
            raise Unavailable(UNSET, code="trainer-unset", path="SPINDLE_TRAINER")
        self._settings = settings
        self._command = shlex.split(settings.trainer.command)

    def list_models(self) -> Sequence[Model]:
        return [Model(name, "local", True) for name in self._settings.trainer.models]

    def check_model(self, name: str) -> None:
        """Raise BadInput for a name that is not in the settings."""
        if name not in self._settings.trainer.models:
            known = ", ".join(self._settings.trainer.models)
            raise BadInput(
                f"The local trainer has no model '{name[:200]}'. It has {known}.", code="unknown-model", path="model"
            )

    def upload_file(self, owner_id: str, name: str, path: Path) -> str:
        """Move the file to the folder of its owner."""
        target = get_folder(self._settings, owner_id) / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.move(path, target)
        return str(target)

    def create_job(self, request: JobRequest) -> str:
        folder = get_folder(self._settings, request.training_id)
        (folder / OUTPUT).mkdir(parents=True, exist_ok=True)
        hyperparameters = folder / "hyperparameters.json"
        hyperparameters.write_text(json.dumps(dict(request.hyperparameters)))
        values = {
            "model": request.model,
            "train": request.train,
            "validation": request.validation or "",
            "output": str(folder / OUTPUT),
        }
        command = [_fill(part, values) for part in self._command]
        memory = int(self._settings.trainer.gigabytes * 1e9)
        spec = RunSpec(request.training_id, command, self._settings.trainer.minutes * 60, memory)
        (folder / SPEC).write_text(json.dumps(asdict(spec)))
        subprocess.Popen(
            [sys.executable, "-P", "-m", "core.training.runner", str(folder)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(Path(__file__).parents[3])},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while not is_alive(folder / PID) and not (folder / END).exists():
            if time.monotonic() > deadline:
                raise Unavailable("The process of the local trainer has not started.", code="provider-unavailable")
            time.sleep(0.02)
        return request.training_id

    def find_job(self, training_id: str) -> str | None:
        return training_id if (get_folder(self._settings, training_id) / SPEC).exists() else None

    def get_job(self, job_id: str) -> Job:
        folder = get_folder(self._settings, job_id)
        end = _read_end(folder / END)
        progress = _read_progress(folder / LOG)
        if end is None and is_alive(folder / PID):
            return Job(State.RUNNING, progress)
        end = end or _read_end(folder / END)  # it may have ended in between
        if end is None:
            _kill_left_behind(job_id)
            return Job(State.FAILED, progress, "The process of the training was lost.", lost=True)
        if end.reason == "cancelled":
            return Job(State.CANCELLED, progress)
        if end.reason:
            return Job(State.FAILED, progress, end.reason)
        if end.code != 0:
            return Job(State.FAILED, progress, _describe_failure(end.code, folder / LOG))
        if not any(path.is_file() for path in (folder / OUTPUT).rglob("*")):
            return Job(State.FAILED, progress, "The trainer has ended without a file in its output folder.")
        return Job(State.COMPLETED, progress, result=str(folder / OUTPUT))

    def list_log(self, job_id: str) -> Sequence[str]:
        try:
            text = (get_folder(self._settings, job_id) / LOG).read_text("utf-8", "replace")
        except FileNotFoundError:  # it has not begun
            return []
        return text.splitlines()[-MAX_LINES:]

    def cancel_job(self, job_id: str) -> None:
        folder = get_folder(self._settings, job_id)
        if folder.is_dir():
            (folder / CANCEL).touch()

    def open_files(self, job_id: str, result: str | None) -> Sequence[ModelFile]:
        folder = get_folder(self._settings, job_id) / OUTPUT
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
        if not files:
            raise ProviderRefused("The training has no files.")
        return [ModelFile(str(path.relative_to(folder)), path.stat().st_size, _read(path)) for path in files]

    def delete_files(self, job_id: str) -> None:
        """Delete the folder of a training that has ended, also the leftovers of a lost run."""
        shutil.rmtree(get_folder(self._settings, job_id), ignore_errors=True)


def get_folder(settings: Settings, training_id: str) -> Path:
    return settings.data.resolve() / "trainings" / training_id


def _fill(part: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(model|train|validation|output)\}", lambda match: values[match[1]], part)


def _read_end(path: Path) -> RunEnd | None:
    with suppress(FileNotFoundError):
        return RunEnd(**json.loads(path.read_text()))
    return None


def _read_tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


def _read_progress(path: Path) -> Progress:
    """Return the last line of the log that is JSON with a step."""
    for line in reversed(_read_tail(path)):
        if line.startswith("{"):
            with suppress(ValueError, RecursionError):
                record: Any = json.loads(line)
                if (step := get_whole(record, "step")) is not None:
                    return Progress(step, get_whole(record, "steps"), _read_loss(record.get("loss")))
    return Progress()


def _read_loss(value: object) -> float | None:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    return number if math.isfinite(number) else None


def _describe_failure(code: int, log: Path) -> str:
    last = " ".join([line.strip() for line in _read_tail(log) if line.strip()][-LAST_LINES:])[-MAX_REASON:]
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return f"The trainer {how}" + (f": {last}" if last else ".")


def _kill_left_behind(training_id: str) -> None:
    """Kill processes of a trainer whose runner was killed."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == training_id:
                process.kill()


def _read(path: Path) -> Generator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
