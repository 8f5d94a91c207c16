"""The reader of Dagster Pipes for a driver whose messages are lines of its log."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from dagster_pipes import PipesParams

from driver.messages import MARK_KEY
from orchestration.dagster_internals import DriverMessageReader, PipesMessageHandler


class MarkedMessageReader(DriverMessageReader):
    """Reads the file of messages that PodLog writes, and tells the driver the mark of its lines."""

    def __init__(self, path: str, mark: str) -> None:
        super().__init__(path)
        self._mark = mark

    @contextmanager
    def read_messages(self, handler: PipesMessageHandler) -> Generator[PipesParams]:
        with super().read_messages(handler):
            yield {MARK_KEY: self._mark}
