"""The query processes of one API process: a few workers that serve one organization at a time, and a warm spare."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import BoundedSemaphore, Lock, Timer

from core.data.processes import start_process
from core.data.sql.embedded.messages import Header, QueryAnswer, QueryRequest
from core.errors import Unavailable

SIZE = 4
WAIT_SECONDS = 10
GRACE_SECONDS = 5


class WorkerTimedOut(Exception):
    """The query was stopped at its time limit."""


class WorkerDied(Exception):
    """The process ended during the query: cancelled, at its memory limit, or by a crash."""

    cancelled = False


class Worker:
    """One process, which runs one request at a time and serves one organization until it ends."""

    def __init__(self, folder: Path) -> None:
        self.organization_id: str | None = None
        self._scratch = tempfile.mkdtemp(dir=folder)
        self.process = start_process("core.data.sql.embedded.worker", self._scratch)
        if self.process.stdin is None or self.process.stdout is None:
            raise ValueError("The process was started without pipes.")
        self._requests, self._answers = self.process.stdin, self.process.stdout

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def run(
        self, request: QueryRequest, seconds: float, report_progress: Callable[[float], object] = lambda _: None
    ) -> QueryAnswer:
        """Send a request and wait for its answer. After WorkerTimedOut or WorkerDied the worker must be closed."""
        timer = Timer(seconds, self.process.kill)
        timer.start()
        try:
            self._requests.write(replace(request, seconds=seconds + GRACE_SECONDS).to_line())
            self._requests.flush()
            while (line := self._answers.readline()).endswith(b"\n"):
                header = Header.from_line(line)
                if header.progress is not None:
                    report_progress(header.progress)
                elif len(body := self._answers.read(header.size)) == header.size:
                    return QueryAnswer(header, body)
            raise EOFError
        except (BrokenPipeError, EOFError):
            raise (WorkerDied if timer.is_alive() else WorkerTimedOut) from None
        finally:
            timer.cancel()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._answers.close()
        with suppress(BrokenPipeError):  # of a request that the process did not read
            self._requests.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


class Pool:
    """Runs requests in workers of their organization; at most `size` run at once. Scratch files are in `folder`.

    With `keep_spare` a process without an organization is always started, so that a first query does not wait for it.
    """

    def __init__(self, folder: Path, size: int = SIZE, *, keep_spare: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self._size = size
        self._slots = BoundedSemaphore(size)
        self._lock = Lock()
        self.idle: list[Worker] = []
        self._running: dict[str, Worker] = {}
        self._cancelled: set[str] = set()
        self._keep_spare = keep_spare
        self._spare = Worker(folder) if keep_spare else None

    def run(
        self,
        organization_id: str,
        query_id: str,
        request: QueryRequest,
        seconds: float,
        report_progress: Callable[[float], object] = lambda _: None,
    ) -> QueryAnswer:
        """Raise Unavailable when all workers stay busy; WorkerTimedOut or WorkerDied as the worker does."""
        with self._take_slot():
            worker = self._take_worker(organization_id, query_id)
            try:
                answer = worker.run(request, seconds, report_progress)
            except BaseException as error:
                with self._lock:
                    del self._running[query_id]
                    if isinstance(error, WorkerDied):
                        error.cancelled = query_id in self._cancelled
                    self._cancelled.discard(query_id)
                worker.close()
                raise
            self._give_back(worker, query_id)
            return answer

    def cancel(self, query_id: str) -> bool:
        """Kill the worker of a running query; False when no query of this id runs."""
        with self._lock:
            worker = self._running.get(query_id)
            if worker is None:
                return False
            self._cancelled.add(query_id)
            worker.process.kill()
            return True

    def close(self) -> None:
        with self._lock:
            workers = [*self.idle, *([self._spare] if self._spare is not None else [])]
            self.idle, self._spare = [], None
        for worker in workers:
            worker.close()

    @contextmanager
    def _take_slot(self) -> Generator[None]:
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise Unavailable("All query processes are busy; try again in a moment.", code="queries-busy")
        try:
            yield
        finally:
            self._slots.release()

    def _take_worker(self, organization_id: str, query_id: str) -> Worker:
        with self._lock:
            own = [worker for worker in self.idle if worker.organization_id == organization_id and worker.is_alive()]
            if own:
                worker = own[-1]
                self.idle.remove(worker)
            else:
                worker = self._spare or Worker(self.folder)
                self._spare = Worker(self.folder) if self._keep_spare else None
                if not worker.is_alive():
                    worker.close()
                    worker = Worker(self.folder)
                worker.organization_id = organization_id
            self._running[query_id] = worker
            return worker

    def _give_back(self, worker: Worker, query_id: str) -> None:
        with self._lock:
            del self._running[query_id]
            self._cancelled.discard(query_id)
            self.idle.append(worker)
            surplus = self.idle.pop(0) if len(self.idle) > self._size else None
        if surplus is not None:
            surplus.close()
