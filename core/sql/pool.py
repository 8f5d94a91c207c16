"""The query processes of one API process: a few workers, each of one organization, and a warm spare."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore, Lock, Timer
from typing import IO, Any

import core
from core.errors import Unavailable

SIZE = 4
WAIT_SECONDS = 10
GRACE_SECONDS = 5


class TimedOut(Exception):
    """The query was stopped at its time limit."""


class Died(Exception):
    """The process ended under the query: by its memory limit, or by a crash."""


@dataclass(frozen=True, slots=True)
class Answer:
    header: dict[str, Any]
    body: bytes


class Worker:
    """One process; runs one request at a time and serves one organization for its life."""

    def __init__(self, folder: Path) -> None:
        self.organization_id: str | None = None
        self._scratch = tempfile.mkdtemp(dir=folder)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "core.sql.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._scratch,
            env=self._environment(),
            start_new_session=True,  # Ctrl-C is for the server, which closes its workers itself
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def run(self, request: dict[str, Any], seconds: float) -> Answer:
        """Raises TimedOut or Died; after either the worker is of no more use."""
        timer = Timer(seconds, self.process.kill)
        timer.start()
        try:
            return self._exchange(request | {"seconds": seconds + GRACE_SECONDS})
        except (BrokenPipeError, EOFError):
            raise (Died if timer.is_alive() else TimedOut) from None
        finally:
            timer.cancel()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        _pipe(self.process.stdout).close()
        with suppress(BrokenPipeError):  # a request that the process did not live to read
            _pipe(self.process.stdin).close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _exchange(self, request: dict[str, Any]) -> Answer:
        requests, answers = _pipe(self.process.stdin), _pipe(self.process.stdout)
        requests.write(json.dumps(request).encode() + b"\n")
        requests.flush()
        header = json.loads(answers.readline() or b"null")
        if header is None:
            raise EOFError
        body = answers.read(header.get("size", 0))
        if len(body) < header.get("size", 0):
            raise EOFError
        return Answer(header, body)

    def _environment(self) -> dict[str, str]:
        """No secret of the service: where the code is, and a home in which nothing lies."""
        checkout = str(Path(core.__file__).parent.parent)
        return {"PYTHONPATH": checkout, "PYTHONDONTWRITEBYTECODE": "1", "HOME": self._scratch, "LC_ALL": "C.UTF-8"}


class Pool:
    """Hands each request to a worker of its organization; at most SIZE run at once, with their scratch in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._slots = BoundedSemaphore(SIZE)
        self._lock = Lock()
        self.idle: list[Worker] = []
        self._spare = Worker(folder)

    def run(self, organization_id: str, request: dict[str, Any], seconds: float) -> Answer:
        """Raises Unavailable when every process stays busy, TimedOut or Died as the worker does."""
        with self._slot():
            worker = self._take(organization_id)
            try:
                answer = worker.run(request, seconds)
            except BaseException:
                worker.close()
                raise
            self._give_back(worker)
            return answer

    def close(self) -> None:
        with self._lock:
            workers, self.idle = [*self.idle, self._spare], []
        for worker in workers:
            worker.close()

    @contextmanager
    def _slot(self) -> Generator[None]:
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise Unavailable("All query processes are busy; try again in a moment.")
        try:
            yield
        finally:
            self._slots.release()

    def _take(self, organization_id: str) -> Worker:
        with self._lock:
            for worker in reversed(self.idle):
                if worker.organization_id == organization_id and worker.alive:
                    self.idle.remove(worker)
                    return worker
            worker, self._spare = self._spare, Worker(self._folder)
        if not worker.alive:
            worker.close()
            worker = Worker(self._folder)
        worker.organization_id = organization_id
        return worker

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            self.idle.append(worker)
            surplus = self.idle.pop(0) if len(self.idle) > SIZE else None
        if surplus is not None:
            surplus.close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("The process was started without pipes.")
    return pipe
