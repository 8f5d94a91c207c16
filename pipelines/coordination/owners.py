"""Which task of a run asks for which page, as the driver knows it. A page is its key, 64 bits, in hex where it is told.

An owner tells nothing of a page until another task wants it: what nobody else wants costs its share of a claim alone.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

from pipelines.coordination.budgets import Message

PATIENCE = 60.0  # seconds that an owner may take to give a sign of life, as one whose rows nobody reads


class Owners:
    """Pages by owner; tasks go by their connections. Every call returns messages for tasks, each named. Not locked.

    A page stays its owner's when it is over, for who asks next is told by the owner where it stands. Of an owner that
    is gone, or silent, nobody knows: who has its page next looks for it, anew for each owner that was `lost`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._owners: dict[int, str] = {}
        self._waiting: dict[int, dict[str, None]] = {}
        self._tasks = set[str]()
        self._asked: dict[str, float] = {}  # for a sign of life, since when
        self._lost = 0

    def take(self, task: str, message: dict[str, Any]) -> list[Message]:
        """Takes what a task says about pages."""
        self._tasks.add(task)
        self._asked.pop(task, None)
        keys = pages(message["keys"])
        match message["kind"]:
            case "claim":
                return self._claimed(task, keys)
            case "still":
                return list(self._still(task, keys))
            case "over":
                return self._over(task, keys[0], message["place"])
            case "moved":
                return self._moved(task, keys[0], message["address"])
            case _:
                return []  # a sign of life

    def gone(self, task: str) -> list[Message]:
        """The task is over: those that wait for its pages have them, one each; it may have kept them."""
        if task not in self._tasks:
            return []
        self._tasks.remove(task)
        self._asked.pop(task, None)
        self._lost += 1
        for waiting in self._waiting.values():
            waiting.pop(task, None)
        self._waiting = {key: waiting for key, waiting in self._waiting.items() if waiting}
        if not self._tasks:  # who comes now finds all that was kept
            self._owners.clear()
        return [each for key in list(self._waiting) if self._owners[key] == task for each in self._next(key)]

    def _claimed(self, task: str, keys: array[int]) -> list[Message]:
        owners = self._owners
        taken = array("Q", [key for key in keys if owners.setdefault(key, task) != task])
        messages: list[Message] = [(task, {"taken": hexed(taken)})]
        for key in taken:
            messages.extend(self._wait(task, key))
        return messages

    def _wait(self, task: str, key: int) -> Iterator[Message]:
        owner, waiting = self._owners[key], self._waiting.setdefault(key, {})
        told = bool(waiting)
        waiting[task] = None
        if owner not in self._tasks:
            yield from self._next(key)
        elif not told:
            yield self._ask(owner, _hex(key))

    def _still(self, task: str, keys: array[int]) -> Iterator[Message]:
        """The task still waits: the owners are asked for a sign of life, or have given none for too long."""
        waiting = [key for key in keys if task in self._waiting.get(key, ())]  # what it was told of meanwhile is out
        owners, now = {self._owners[key] for key in waiting}, self._clock()
        silent = {owner for owner in owners if now - self._asked.get(owner, now) >= PATIENCE}
        self._lost += bool(silent)
        for key in waiting:
            if self._owners[key] in silent:
                yield from self._next(key)
        for owner in owners - silent:
            yield self._ask(owner, "")

    def _ask(self, owner: str, wanted: str) -> Message:
        """The owner is to answer for what is `wanted`, or at all."""
        self._asked.setdefault(owner, self._clock())
        return owner, {"wanted": wanted}

    def _over(self, task: str, key: int, place: list[Any] | None) -> list[Message]:
        if self._owners.get(key) != task or key not in self._waiting:
            return []  # it was silent for too long, or whoever waited is gone
        waiting = self._waiting.pop(key)
        if place is None:  # all at once: one after the other, they would wait for as many time-outs
            self._owners[key] = next(iter(waiting))
            return [(each, {"yours": _hex(key), "lost": self._lost}) for each in waiting]
        return [(each, {"kept": _hex(key), "place": place}) for each in waiting]

    def _moved(self, task: str, key: int, address: str) -> list[Message]:
        """The task remains the owner: what the page leads to it will keep for this address too."""
        if self._owners.get(key) != task:
            return []
        return [(each, {"moved": _hex(key), "address": address}) for each in self._waiting.pop(key, ())]

    def _next(self, key: int) -> Iterator[Message]:
        """Who waits longest has the page now."""
        waiting = self._waiting[key]
        owner = self._owners[key] = next(iter(waiting))
        del waiting[owner]
        yield owner, {"yours": _hex(key), "lost": self._lost}
        if waiting:
            yield self._ask(owner, _hex(key))
        else:
            del self._waiting[key]


def hexed(keys: array[int]) -> str:
    return keys.tobytes().hex()


def pages(text: str) -> array[int]:
    """The keys that `hexed` told."""
    return array("Q", bytes.fromhex(text))


def _hex(key: int) -> str:
    return hexed(array("Q", [key]))
