"""The instances of the service on one PostgreSQL database: their leases, and the executions of lost ones.

An execution belongs to the instance that claimed its attempt, until the lease of that has ended. Leases count by the
database's clock, and after an outage, in which nobody could renew one, they are not judged for as long as they last.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from core.errors import Unavailable
from core.infra.background import OutageLog
from core.infra.database import database_url, make_engine, translate_errors
from core.infra.heartbeats import Heartbeats
from core.infra.settings import Settings
from core.infra.version import get_version
from core.tables import Instance, new_id

LEASE = timedelta(seconds=20)
RENEWAL_SECONDS = 5.0
FORGET_AFTER = timedelta(hours=1)
ALIVE = Instance.seen_at > func.now() - LEASE
OTHERS = "instances"  # the file in the data folder with the ids of the others


@cache
def get_instance_id(data: Path) -> str:
    """Return the id of the instance of a data folder, which stays the same; a copy of the folder has another."""
    path, place = data / "instance-id", describe_place(data)
    with suppress(OSError):
        found, _, where = path.read_text().partition(" ")
        if where == place:
            return found
    made = new_id()
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{made}")
    draft.write_text(f"{made} {place}")
    draft.rename(path)
    return path.read_text().partition(" ")[0]


def describe_place(data: Path) -> str:
    return f"{socket.gethostname()}:{data.resolve()}"


def list_instances(session: Session) -> Sequence[Instance]:
    """Return the instances with a lease, the oldest first; none with SQLite, which has one instance without."""
    if session.get_bind().dialect.name != "postgresql":
        return ()
    return session.scalars(select(Instance).where(ALIVE).order_by(Instance.started_at)).all()


def is_elsewhere(data: Path, instance_id: str | None) -> bool:
    """Return whether another instance may be at work on what has this id, as the launcher of this one has seen it."""
    with suppress(OSError):
        return instance_id in (data / OTHERS).read_text().split()
    return False


class Membership:
    """The lease of this instance, and which executions and runs are its own."""

    def __init__(self, settings: Settings) -> None:
        self._data = settings.data
        self._id = get_instance_id(settings.data)
        self._heartbeats = Heartbeats(settings.data)
        self._engine = make_engine(database_url(settings), 1)
        self._is_shared = self._engine.dialect.name == "postgresql"
        self._others: frozenset[str] | None = None if self._is_shared else frozenset()
        self._renewed_at = self._since = -LEASE.total_seconds()
        self._lock, self._has_ended = threading.Lock(), False
        self._outages = OutageLog()

    @property
    def leads(self) -> bool:
        """Whether this instance does what only one may do."""
        return self._heartbeats.leads

    @property
    def is_alone(self) -> bool:
        return not self._others

    def is_mine(self, owner: str | None) -> bool:
        """Return whether this instance follows what another one, or a version without instances, began.

        That of a lost instance is the leader's.
        """
        if owner == self._id:
            return True
        return self._others is not None and owner not in self._others and self.leads

    def is_lost(self, owner: str | None) -> bool:
        """Return whether the leader, which this instance is, has to take over what another one began."""
        return owner is not None and owner != self._id and self.is_mine(owner)

    def start(self) -> None:
        """Renew the lease now, and in a thread from now on: what the launcher waits for must not end it."""
        if self._is_shared:
            self._outages.run_step(self.renew)
            threading.Thread(target=self._keep, name="lease", daemon=True).start()

    def end(self) -> None:
        """Give the lease back: others need not wait for its end."""
        with self._lock:
            self._has_ended = True
            if self._is_shared:
                with suppress(Unavailable), translate_errors(), self._engine.begin() as connection:
                    connection.execute(delete(Instance).where(Instance.id == self._id))
            self._engine.dispose()

    def renew(self) -> None:
        """Renew the lease, and judge those of the others. Raises Unavailable."""
        values = {
            "name": describe_place(self._data),
            "version": get_version(),
            "leads": self.leads,
            "seen_at": func.now(),
        }
        row = insert(Instance).values(id=self._id, started_at=func.now(), **values)
        oldest = Instance.seen_at < func.now() - FORGET_AFTER
        with self._lock, translate_errors():
            if self._has_ended:
                return
            with self._engine.begin() as connection:
                connection.execute(row.on_conflict_do_update(index_elements=[Instance.id], set_=values))
                rows = connection.execute(select(Instance.id, ALIVE, oldest)).tuples().all()
                if any(is_old for _, _, is_old in rows):
                    connection.execute(delete(Instance).where(oldest))
        at = time.monotonic()
        if at - self._renewed_at > LEASE.total_seconds() / 2:
            self._since = at
        self._renewed_at = at
        may_judge = at - self._since >= LEASE.total_seconds()
        self._others = frozenset(each for each, alive, _ in rows if each != self._id and (alive or not may_judge))
        draft = self._data / f"{OTHERS}.new"
        draft.write_text(" ".join(sorted(self._others)))
        draft.rename(self._data / OTHERS)

    def _keep(self) -> None:
        while not self._has_ended:
            time.sleep(RENEWAL_SECONDS)
            self._outages.run_step(self.renew)
