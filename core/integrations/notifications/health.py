"""The watch over the service itself, for rules with `degraded`: its processes, its data folder and its storage."""

from __future__ import annotations

import threading

from core.errors import Unavailable
from core.infra.background import OutageLog
from core.infra.checks import Check, run_checks
from core.infra.database import Database
from core.infra.files import check_folder
from core.infra.heartbeats import Heartbeats
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.lifecycle.executions.notices import DEGRADED, RECOVERED, record_service_notice

CHECK_SECONDS = 20.0  # also for the processes to start
ANSWER_SECONDS = 10.0


class HealthWatch:
    """Records a notice when a part has not worked in two checks, and one when all work again."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._database = database
        self._problem: str | None = None
        self._is_told = False
        self._checks = (
            Check("data folder", lambda: check_folder(settings.data, "data folder"), "storage-unavailable"),
            Check("storage", open_storage(settings.storage).check, "storage-unavailable"),
            Check("background work", Heartbeats(settings.data).check_loops, "unavailable"),
        )

    def run(self, stop: threading.Event) -> None:
        outages = OutageLog()
        while not stop.wait(CHECK_SECONDS):
            outages.run_step(self.check)

    def check(self) -> None:
        problem = self._find_problem()
        if problem and self._problem and not self._is_told:
            with self._database.write() as session:
                record_service_notice(session, DEGRADED, problem)
            self._is_told = True
        elif not problem and self._is_told:
            with self._database.write() as session:
                record_service_notice(session, RECOVERED, "All of its parts work again.")
            self._is_told = False
        self._problem = problem

    def _find_problem(self) -> str | None:
        try:
            run_checks(self._checks, ANSWER_SECONDS)
        except Unavailable as error:
            return error.sentence
        return None
