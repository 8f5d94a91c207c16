"""Scheduling of tests: which worker of pytest-xdist runs which files, and how long what they share lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


def end_fixtures(item: pytest.Item, names: Iterable[str]) -> None:
    """Tear down fixtures of the session, and those made of them, after this item; a later test makes them anew.

    pytest itself keeps a fixture of the session until its end: private members are the only way.
    """
    for name in names:
        for definition in item.session._fixturemanager.getfixturedefs(name, item) or ():
            definition.finish(item._request)


class ScopeScheduling(LoadScopeScheduling):
    """Let one worker run all tests of a scope, and another what is left of it when a test kills the worker.

    In pytest-xdist 3.8 a worker that dies leaves its finished scopes to others, which wait for their end forever
    (pytest-xdist issues 1323, 1327, 1378), and the test that killed it kills its successor.
    """

    def __init__(self, config: pytest.Config, get_scope: Callable[[Path], str], log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._get_scope = get_scope

    def _split_scope(self, nodeid: str) -> str:
        return self._get_scope(self.config.rootpath / nodeid.split("::", 1)[0])

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that a dead worker ran; the tests after it go back to the queue."""
        scopes = self.assigned_work.pop(node)
        waiting = [(scope, test) for scope, tests in scopes.items() for test, is_over in tests.items() if not is_over]
        for scope, test in waiting[1:]:
            self.workqueue.setdefault(scope, {})[test] = False
        for other in self.assigned_work:
            self._reschedule(other)
        return waiting[0][1] if waiting else None

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:  # it collects its tests still, in the place of a dead one
            return
        super()._reschedule(node)
        if self._pending_of(self.assigned_work[node]) < 2:  # a worker begins a test when it knows the next one
            super()._reschedule(node)
