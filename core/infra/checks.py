"""Checks of the parts that the service depends on, which take a bounded time however long a part hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from core.errors import SpindleError, Unavailable


class Check:
    """The check of one part. At most one thread runs it; concurrent callers share its result."""

    def __init__(self, part: str, action: Callable[[], object], code: str) -> None:
        self.part = part
        self._action = action
        self._code = code
        self._lock = threading.Lock()
        self._running: Future[None] | None = None

    def begin(self) -> Future[None]:
        """Start the check unless it is running."""
        with self._lock:
            if self._running is None or self._running.done():
                self._running = Future()
                threading.Thread(
                    target=self._run, args=(self._running,), name=f"check-{self.part}", daemon=True
                ).start()
            return self._running

    def find_problem(self, seconds: float) -> SpindleError | None:
        """Return why the part does not work, or None. A part that does not answer in time does not work."""
        try:
            self.begin().result(max(seconds, 0))
        except FutureTimeoutError:
            return Unavailable(f"The {self.part} does not answer.", code=self._code, path=self.part)
        except SpindleError as error:
            return type(error)(error.sentence, code=error.details[0].code, path=self.part)
        return None

    def _run(self, result: Future[None]) -> None:
        try:
            self._action()
        except BaseException as error:  # `find_problem` raises it
            result.set_exception(error)
        else:
            result.set_result(None)


def run_checks(checks: Sequence[Check], seconds: float) -> None:
    """Run checks at the same time. Raises Unavailable with a detail for every part that does not work."""
    deadline = time.monotonic() + seconds
    for check in checks:
        check.begin()
    problems = [found for check in checks if (found := check.find_problem(deadline - time.monotonic()))]
    if problems:
        sentence = " ".join(problem.sentence for problem in problems)
        raise Unavailable(sentence, [detail for problem in problems for detail in problem.details])
