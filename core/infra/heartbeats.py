"""Signs of life of an instance's processes: files in the data folder, whose times change while a process works.

A pulse is a thread's, which beats as long as the process runs at all: the supervisor restarts one that has stopped. A
loop beats for itself each time around: readiness asks for that. It may wait for a database, and is not restarted.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from core.errors import Unavailable
from core.infra.commit_mark import CommitMark

BEAT_SECONDS = 5.0
SILENT_SECONDS = 30.0
LOOPS = {
    "launcher": "The launcher",
    "webhooks": "The process that delivers webhooks",
    "scheduler": "Dagster's scheduler",
    "daemon": "Dagster's daemon",
}
OF_THE_LEADER = ("scheduler", "daemon")
LEADER = "leader"  # the sign of an instance that does what only one of a database may do


class Heartbeats:
    """The signs of one instance; a process without a supervisor has no signs."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "heartbeats"

    def reset(self) -> None:
        """Begin without signs of an earlier start."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)

    @property
    def leads(self) -> bool:
        """Whether this instance leads; a process without a supervisor always does."""
        return not self._folder.is_dir() or (self._folder / LEADER).exists()

    def lead(self, *, takes_over: bool = False) -> None:
        """Lead from now on; an instance that `takes_over` is ready while its scheduler starts."""
        for loop in OF_THE_LEADER if takes_over else ():
            self.beat(loop)
        (self._folder / LEADER).touch()

    def resign(self) -> None:
        for name in (LEADER, *OF_THE_LEADER):
            (self._folder / name).unlink(missing_ok=True)

    def beat(self, loop: str) -> None:
        if self._folder.is_dir():
            CommitMark(self._folder / loop).touch()

    def read(self, loop: str) -> int:
        """Return a number that differs after a beat; 0 before the first one."""
        return CommitMark(self._folder / loop).read()

    def start_pulse(self, process: str) -> None:
        threading.Thread(target=self._pulse, args=(process,), name="pulse", daemon=True).start()

    def read_pulse(self, process: str) -> int:
        return self.read(self._get_pulse_path(process).name)

    def forget_pulse(self, process: str) -> None:
        self._get_pulse_path(process).unlink(missing_ok=True)

    def check_loops(self) -> None:
        """Raise Unavailable with the loops that have not begun, or have not moved for SILENT_SECONDS."""
        loops = {loop: title for loop, title in LOOPS.items() if self.leads or loop not in OF_THE_LEADER}
        if self._folder.is_dir() and (silent := " ".join(self._describe_silent(loops))):
            raise Unavailable(silent)

    def _describe_silent(self, loops: Mapping[str, str]) -> Iterator[str]:
        for loop, title in loops.items():
            beat = self.read(loop)
            silence = time.time() - beat / 1e9
            if not beat:
                yield f"{title} has not started yet."
            elif silence > SILENT_SECONDS:
                yield f"{title} has not moved for {silence:.0f} s."

    def _pulse(self, process: str) -> None:
        while True:
            self.beat(self._get_pulse_path(process).name)
            time.sleep(BEAT_SECONDS)

    def _get_pulse_path(self, process: str) -> Path:
        return self._folder / f"pulse-of-{process}"


class BeatingEvent:
    """An event whose waits beat: a loop that waits for a time is not silent."""

    def __init__(self, event: threading.Event, beat: Callable[[], None]) -> None:
        self._event = event
        self._beat = beat

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0 and not self._event.wait(min(left, BEAT_SECONDS)):
            self._beat()
        return self._event.is_set()
