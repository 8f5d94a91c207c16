"""Threads of this process that execute Dagster runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import structlog

from core.infra.pidfile import hold_pidfile, is_alive
from core.infra.run_socket import get_run_pidfile
from orchestration.outages import describe_outage, is_outage

log = structlog.get_logger()


class RunThreads:
    """Starts and interrupts runs. A run holds its pidfile in DAGSTER_HOME/runs, by which other processes see it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        (home / "runs").mkdir(parents=True, exist_ok=True)
        self._runs: dict[str, tuple[threading.Thread, threading.Event]] = {}
        self._current = threading.local()

    def __len__(self) -> int:
        return len(self._runs)

    def is_alive(self, run_id: str) -> bool:
        """Return whether the run continues, here or as a process of another code location."""
        return bool(run_id) and is_alive(get_run_pidfile(self._home, run_id))

    def start(self, run_id: str, execute: Callable[[threading.Event], object]) -> bool:
        """Call `execute` in a thread, with the event that interrupts it; return False for a run that continues."""
        with ExitStack() as stack:
            try:
                descriptor = stack.enter_context(hold_pidfile(get_run_pidfile(self._home, run_id)))
            except BlockingIOError:
                return False
            os.write(descriptor, str(os.getpid()).encode())
            interrupt, held = threading.Event(), stack.pop_all()
        thread = threading.Thread(target=self._run, args=(run_id, execute, interrupt, held), name=f"run {run_id}")
        thread.daemon = True
        self._runs[run_id] = thread, interrupt
        thread.start()
        return True

    def interrupt(self, run_id: str) -> bool:
        """Let the run end; return False for one that is not here."""
        found = self._runs.get(run_id)
        if found is not None:
            found[1].set()
        return found is not None

    def pause(self, seconds: float) -> bool:
        """Wait in the thread of a run; return False when the run is to end, and at once in other threads."""
        interrupt: threading.Event | None = getattr(self._current, "interrupt", None)
        return interrupt is not None and not interrupt.wait(seconds)

    def stop(self, seconds: float) -> None:
        """Interrupt all runs, and wait for them."""
        deadline, runs = time.monotonic() + seconds, [*self._runs.values()]
        for _, interrupt in runs:
            interrupt.set()
        for thread, _ in runs:
            thread.join(max(0, deadline - time.monotonic()))

    def _run(
        self, run_id: str, execute: Callable[[threading.Event], object], interrupt: threading.Event, held: ExitStack
    ) -> None:
        self._current.interrupt = interrupt
        try:
            execute(interrupt)
        except Exception as error:
            if is_outage(error):
                log.warning("a run was left", run_id=run_id, reason=describe_outage(error).sentence)
            else:
                log.exception("a run failed", run_id=run_id)
        finally:
            get_run_pidfile(self._home, run_id).unlink(missing_ok=True)
            held.close()
            del self._runs[run_id]
