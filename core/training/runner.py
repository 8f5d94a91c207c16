"""`python -m core.training.runner FOLDER`: run the operator's trainer in a folder, within limits, to its end.

The process outlives the one that started it. Its folder has `spec.json`, and then `log` and `end.json`; a file `cancel`
ends the trainer. The lock of `pid` shows that it runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import psutil

from core.infra.pidfile import hold_pidfile
from core.infra.processes import LINUX, PR_SET_PDEATHSIG, signal_group

PID, SPEC, LOG, END, CANCEL = "pid", "spec.json", "log", "end.json", "cancel"
MARK = "SPINDLE_TRAINING"  # variable by which processes of a trainer that were left behind are found
POLL_SECONDS = 0.4
GRACE_SECONDS = 2.0
MAX_LOG_BYTES = 64 * 2**20
LIBC = ctypes.CDLL(None)
VARIABLES = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TZ")
PREFIXES = ("CUDA_", "LC_", "NVIDIA_", "OMP_")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The command of a run and its limits."""

    training_id: str
    command: Sequence[str]
    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run: the trainer's exit code, or the reason for which it was ended."""

    code: int
    reason: str
    seconds: float
    peak_bytes: int


def run(folder: Path) -> RunEnd:
    """Run the trainer to its end, or to its limits, or until it is cancelled."""
    spec = RunSpec(**json.loads((folder / SPEC).read_text()))
    started, peak = time.monotonic(), 0
    with (folder / LOG).open("ab") as log:
        try:
            process = _start(spec, folder)
        except OSError as error:
            reason = f"The trainer cannot be started: {error.strerror}: {spec.command[0]}."
            return RunEnd(1, reason, time.monotonic() - started, 0)
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        copying = threading.Thread(target=_copy, args=(process.stdout, log), daemon=True)
        copying.start()
        reason = ""
        while process.poll() is None and not reason:
            time.sleep(POLL_SECONDS)
            used = _measure_memory(process.pid)
            peak = max(peak, used)
            reason = _find_reason(spec, folder, time.monotonic() - started, used)
        if reason:
            _end(process)
        signal_group(process.pid, signal.SIGKILL)  # anything that the trainer has left behind
        copying.join(GRACE_SECONDS)
    return RunEnd(process.wait(), reason, time.monotonic() - started, peak)


def _find_reason(spec: RunSpec, folder: Path, seconds: float, used: int) -> str:
    """Return why the trainer has to end now, or an empty text."""
    if (folder / CANCEL).exists():
        return "cancelled"
    if seconds > spec.seconds:
        return f"The training took longer than {spec.seconds / 60:g} minutes (SPINDLE_TRAINER_MINUTES)."
    if used > spec.memory_bytes:
        return f"The training needed more than {spec.memory_bytes / 1e9:g} GB of memory (SPINDLE_TRAINER_GIGABYTES)."
    return ""


def _start(spec: RunSpec, folder: Path) -> subprocess.Popen[bytes]:
    """Start the trainer without the service's variables, which have secrets."""
    kept = {name: value for name, value in os.environ.items() if name in VARIABLES or name.startswith(PREFIXES)}
    return subprocess.Popen(
        spec.command,
        cwd=folder,
        env={**kept, MARK: spec.training_id, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )


def _die_with_parent() -> None:
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _copy(pipe: IO[bytes], log: IO[bytes]) -> None:
    """Write the trainer's lines to the log, as far as it may grow."""
    written = 0
    for line in iter(lambda: pipe.readline(2**16), b""):
        if written < MAX_LOG_BYTES <= written + len(line):
            log.write(b"The log is full: further lines are not kept.\n")
        written += len(line)
        if written < MAX_LOG_BYTES:
            log.write(line)
            log.flush()


def _measure_memory(pid: int) -> int:
    """Return the resident memory of a process and its descendants."""
    used = 0
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        for process in (leader, *leader.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += process.memory_info().rss
    return used


def _end(process: subprocess.Popen[bytes]) -> None:
    signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):  # SIGKILL follows
        process.wait(GRACE_SECONDS)


def main() -> None:
    folder = Path(sys.argv[1])
    with hold_pidfile(folder / PID):
        end = run(folder)
        partial = folder / f"{END}.partial"
        partial.write_text(json.dumps(asdict(end)))
        partial.replace(folder / END)


if __name__ == "__main__":
    main()
