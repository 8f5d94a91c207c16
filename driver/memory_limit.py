"""A limit on the memory of a driver without Spark: it ends with a sentence, before the system kills any process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

import psutil

_LOOK_SECONDS = 0.2


class MemoryLimit:
    """Calls `end` once when this process has more memory than `most` bytes, or half of the machine's without a number.

    It is called in a thread: what the pipeline does at that moment cannot be interrupted otherwise.
    """

    def __init__(self, most: int | None, end: Callable[[str], object]) -> None:
        self._most = most or psutil.virtual_memory().total // 2
        self._end = end
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._is_over.wait(_LOOK_SECONDS):
            if process.memory_info().rss > self._most:
                self._end(
                    f"the execution needed more than {self._most / 1e9:.1f} GB of memory "
                    "(SPINDLE_LOCAL_DRIVER_GIGABYTES): let it run on Spark with spindle: {engine: spark}"
                )
                return
