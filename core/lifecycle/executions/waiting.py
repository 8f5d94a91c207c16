"""Waiting for the ends of executions in an event loop: one poll of the database for all that wait in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

from sqlalchemy import select

from core.errors import Unavailable
from core.infra.background import OutageLog
from core.infra.database import Database
from core.tables import Execution
from core.tables.states import TERMINAL

POLL_SECONDS = 0.2


class ExecutionWaiter:
    """Waits for executions without a thread or a connection for each of them; used in one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ends: dict[str, list[asyncio.Event]] = {}
        self._polling: asyncio.Task[None] | None = None

    async def wait(self, execution_id: str, seconds: float) -> bool:
        """Return whether the execution has ended within this time."""
        end = asyncio.Event()
        self._ends.setdefault(execution_id, []).append(end)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), seconds)
        finally:
            waiting = self._ends[execution_id]
            waiting.remove(end)
            if not waiting:
                del self._ends[execution_id]
        return end.is_set()

    async def _poll(self) -> None:
        outages = OutageLog()
        while self._ends:
            try:
                ended = await asyncio.to_thread(_load_ended, self._database, list(self._ends))
            except Unavailable as error:
                outages.report_failure("wait", error.sentence)
            else:
                outages.report_success("wait")
                for execution_id in ended:
                    for end in self._ends.get(execution_id, ()):
                        end.set()
            await asyncio.sleep(POLL_SECONDS)


def _load_ended(database: Database, execution_ids: Collection[str]) -> Sequence[str]:
    query = select(Execution.id).where(Execution.id.in_(execution_ids), Execution.state.in_(TERMINAL))
    with database.read() as session:
        return session.scalars(query).all()
