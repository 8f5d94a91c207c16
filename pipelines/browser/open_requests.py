"""The requests of a page that have no answer yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from playwright.async_api import Page, Request

_LONG_SECONDS = 5.0  # an older request is one that the server holds open, like for events


class OpenRequests:
    """The requests that a page has begun within the context; those that stay open for long do not count."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._began: dict[Request, float] = {}
        self._listeners = (("request", self._add), ("requestfinished", self._remove), ("requestfailed", self._remove))

    def __enter__(self) -> Self:
        for event, listener in self._listeners:
            self._page.on(event, listener)  # pyright: ignore[reportArgumentType,reportCallIssue]
        return self

    def __exit__(self, *_: object) -> None:
        for event, listener in self._listeners:
            self._page.remove_listener(event, listener)

    def __bool__(self) -> bool:
        oldest = time.monotonic() - _LONG_SECONDS
        return any(began > oldest for began in self._began.values())

    def _add(self, request: Request) -> None:
        self._began[request] = time.monotonic()

    def _remove(self, request: Request) -> None:
        self._began.pop(request, None)
