"""What a pass needs of whatever brings its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pipelines.fetch.page import Page

T = TypeVar("T")


class Fetcher(Protocol):
    """Brings pages, and frees what it holds when its block ends; for one thread."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def fetch(self, requests: Iterable[tuple[str, T]]) -> Iterator[tuple[Page, T]]:
        """A page for each (url, tag), in the order in which they finish; failures are pages with an `error`.

        `requests` is pulled from only as requests can start.
        """
        ...
