"""The threads of one process that run background queries, and their heartbeat."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from core.data.sql.engine import EngineQuery, SqlEngine
from core.data.sql.query_limit import has_slot
from core.data.sql.stored.repository import (
    beat,
    complete_query,
    delete_queries,
    expire_after,
    fail_lost_query,
    fail_query,
    list_expired,
    list_lost,
    start_query,
)
from core.errors import SpindleError, Unavailable
from core.infra.background import OutageLog
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage.protocol import Storage, query_key
from core.tables import now

THREADS = 2
BEAT_SECONDS = 1
ROUNDS_PER_SWEEP = 15
LOST_AFTER = timedelta(seconds=60)
BATCH = 100
WAIT_SECONDS = 0.5  # for a query of a limited organization to end
CLOSE_SECONDS = 5
FAULT = "The query failed by a fault of the service, which has been logged."

log = structlog.get_logger()


@dataclass(slots=True)
class _Queue:
    """Waiting and running queries; the next one is of the organization with the fewest that run.

    Those are `postponed` that a limit of their organization keeps from beginning.
    """

    waiting: deque[EngineQuery] = field(default_factory=deque[EngineQuery])
    running: dict[str, EngineQuery] = field(default_factory=dict[str, EngineQuery])
    postponed: set[str] = field(default_factory=set[str])
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self) -> EngineQuery | None:
        """Return the next query, or None after a second without one."""
        with self.changed:
            if not self.waiting:
                self.changed.wait(1)
            busy = Counter(query.organization_id for query in self.running.values())
            query = min(self.waiting, key=lambda each: busy[each.organization_id], default=None)
            if query is not None:
                self.waiting.remove(query)
                self.running[query.id] = query
            return query

    def release(self, query: EngineQuery) -> bool:
        """Remove a query that has ended; return False for one that was postponed, which waits again."""
        with self.changed:
            self.running.pop(query.id, None)
            if query.id not in self.postponed:
                return True
            self.postponed.discard(query.id)
            self.waiting.append(query)
            return False


class QueryRunner:
    """Runs queries in a few threads. Its process may die at any point: another one, or the next, ends its queries."""

    def __init__(self, settings: Settings, database: Database, storage: Storage, engine: SqlEngine) -> None:
        self._hours = settings.sql.result_hours
        self._database = database
        self._storage = storage
        self._engine = engine
        self._queue = _Queue()
        self._progress: dict[str, float | None] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        targets = [self._work] * THREADS + [self._watch]
        self._threads = [threading.Thread(target=target, name="stored-queries", daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def submit(self, query: EngineQuery) -> None:
        """Run a query of which there is a record, as soon as a thread is free."""
        with self._queue.changed:
            self._progress[query.id] = None
            self._queue.waiting.append(query)
            self._queue.changed.notify()

    def cancel(self, query_id: str) -> None:
        """Stop a query whose record says so already. One of another process stops at that process's next heartbeat."""
        with self._queue.changed:
            waiting = [query for query in self._queue.waiting if query.id == query_id]
            for query in waiting:
                self._queue.waiting.remove(query)
                self._progress.pop(query_id, None)
        self._engine.cancel(query_id)

    def close(self) -> None:
        """End the process's queries: their records say so at once."""
        self._stop.set()
        with self._queue.changed:
            ids = [*self._queue.running, *(query.id for query in self._queue.waiting)]
            self._queue.waiting.clear()
            self._queue.changed.notify_all()
        error = Unavailable("The service was stopped while this query ran. Submit it again.", code="query-lost")
        with suppress(Unavailable):
            for query_id in ids:
                with self._database.write() as session:
                    fail_query(session, query_id, error, expire_after(self._hours))
        deadline = time.monotonic() + CLOSE_SECONDS
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            for query_id in ids:
                self._engine.cancel(query_id)
            self._threads[-1].join(CLOSE_SECONDS / 50)

    def sweep(self) -> None:
        """End queries that have lost their process, and delete results that are not kept any longer."""
        with self._database.read() as session:
            lost = list_lost(session, now() - LOST_AFTER)
        for query_id in lost:  # without one there is no commit, which would end the rest of all processes
            with self._database.write() as session:
                if fail_lost_query(session, query_id, expire_after(self._hours)):
                    log.warning("query lost", query_id=query_id)
        with self._database.read() as session:
            expired = [(each.id, each.organization_id) for each in list_expired(session, now(), BATCH)]
        for query_id, organization_id in expired:
            self._storage.delete(query_key(organization_id, query_id))
        if expired:
            with self._database.write() as session:
                delete_queries(session, [query_id for query_id, _ in expired])

    def _work(self) -> None:
        outages = OutageLog()
        while not self._stop.is_set():
            query = self._queue.take()
            if query is None:
                continue
            try:
                if not outages.run_step(lambda query=query: self._run(query)):
                    # the record could not be written; the heartbeat ends with this
                    self._engine.cancel(query.id)
            finally:
                if self._queue.release(query):
                    self._progress.pop(query.id, None)

    def _run(self, query: EngineQuery) -> None:
        with self._database.write() as session:
            has_room = has_slot(session, query.organization_id)
            if has_room and not start_query(session, query.id):
                return
        if not has_room:
            self._queue.postponed.add(query.id)
            self._stop.wait(WAIT_SECONDS)
            return
        key = query_key(query.organization_id, query.id)
        try:
            result = self._engine.store(query, key, lambda share: self._note_progress(query.id, share))
        except Exception as error:  # a thread that ended would leave the following queries waiting
            known = error if isinstance(error, SpindleError) else SpindleError(FAULT)
            if known is not error:
                log.exception("query failed", query_id=query.id)
            with self._database.write() as session:
                fail_query(session, query.id, known, expire_after(self._hours))
            return
        with self._database.write() as session:
            kept = complete_query(session, query.id, result, expire_after(self._hours))
        if not kept:
            self._storage.delete(key)

    def _note_progress(self, query_id: str, share: float) -> None:
        if query_id in self._progress:
            self._progress[query_id] = share

    def _watch(self) -> None:
        outages, rounds = OutageLog(), 0
        while not self._stop.wait(BEAT_SECONDS):
            outages.run_step(self._beat)
            if rounds % ROUNDS_PER_SWEEP == 0:
                outages.run_step(self.sweep)
            rounds += 1

    def _beat(self) -> None:
        """Write the heartbeat of this process's queries, and stop those that were cancelled elsewhere."""
        with self._queue.changed:
            progress = dict(self._progress)
        if not progress:
            return
        with self._database.write(durable=False) as session:
            unfinished = beat(session, progress)
        for query_id in progress.keys() - unfinished:
            if query_id in self._progress:
                self.cancel(query_id)
