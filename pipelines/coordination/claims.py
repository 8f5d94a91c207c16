"""Claims of a task on pages: which of them other tasks ask for, as the driver's coordinator says."""

from __future__ import annotations

import time
from array import array
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Any, Self

from pipelines.coordination.channel import Channel, Endpoint
from pipelines.coordination.others import Kept, Moved, News, Wanted, Yours
from pipelines.coordination.owners import hexed, pages
from pipelines.page_cache.groups import Place

_LOOK_SECONDS = 0.01  # how often a busy task looks for messages
_STILL_SECONDS = 20.0  # how often the driver is told of what is waited for, so that nobody waits for a silent task
_ANSWER_SECONDS = 30.0  # at a time
_LONGEST = 2000  # characters of an address that is told: a site may send longer ones to thousands of links


class Claims:
    """Answers as `Others` says, over a connection of its own; what it has claimed is others' once that is closed.

    To be opened before the task's cache, which then finds what tasks that are gone have kept, and closed after it, when
    what this one keeps is written. Raises DriverGone.
    """

    def __init__(self, endpoint: Endpoint, task: str) -> None:
        self._channel = Channel(endpoint, task)
        self._news: list[News] = []
        self._waiting = set[int]()
        self._looked = self._told = time.monotonic()
        self._lost = 0
        self.claim(())  # so that the driver knows of this task, and forgets no owner from now on

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._channel.close()

    def claim(self, keys: Sequence[int]) -> Collection[int]:
        self._say("claim", keys)
        taken = None
        while taken is None:
            for message in self._channel.received(_ANSWER_SECONDS):
                if "taken" in message:
                    taken = set(pages(message["taken"]))
                    self._waiting.update(taken)
                else:
                    self._take(message)
        return taken

    def over(self, key: int, place: Place | None) -> None:
        self._say("over", (key,), place=place)

    def moved(self, key: int, address: str) -> None:
        if len(address) > _LONGEST:
            self.over(key, None)
        else:
            self._say("moved", (key,), address=address)

    def news(self) -> Sequence[News]:
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            for message in self._channel.received():
                self._take(message)
            if self._waiting and now - self._told >= _STILL_SECONDS:
                self._told = now
                self._say("still", self._waiting)
        news, self._news = self._news, []
        return news

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"wanted": text}:
                self._say("here", ())
                self._news.extend(map(Wanted, pages(text)))
            case {"kept": text, "place": [file, offset]}:
                self._came(Kept(pages(text)[0], Place(file, offset)))
            case {"moved": text, "address": address}:
                self._came(Moved(pages(text)[0], address))
            case {"yours": text, "lost": lost}:
                self._came(Yours(pages(text)[0], look=lost > self._lost))
                self._lost = lost
            case _:
                raise ValueError(f"the driver says {message}")

    def _came(self, news: Kept | Moved | Yours) -> None:
        self._waiting.discard(news.key)
        self._news.append(news)

    def _say(self, kind: str, keys: Collection[int], **fields: Any) -> None:
        self._channel.send({"kind": kind, "keys": hexed(array("Q", keys)), **fields})
