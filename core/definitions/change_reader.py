"""Reading of the changes of definitions, which `core.tables.definitions` records."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.tables import DefinitionChange, now

KEEP = timedelta(days=1)
SETTLED_SECONDS = 60.0  # longer than a transaction may take


class ChangeReader:
    """Reports whether there were changes since the last call.

    Transactions may commit in another order than that of their ids, so ids are compared with those already seen, until
    no transaction that took a lower one can be left.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._settled = 0
        self._seen: dict[int, float] = {}

    def has_changes(self, session: Session) -> bool:
        at = self._clock()
        ids = session.scalars(select(DefinitionChange.id).where(DefinitionChange.id > self._settled)).all()
        new = [each for each in ids if each not in self._seen]
        self._seen |= dict.fromkeys(new, at)
        settled = [each for each, seen_at in self._seen.items() if at - seen_at > SETTLED_SECONDS]
        if settled:
            self._settled = max(settled)
            self._seen = {each: seen_at for each, seen_at in self._seen.items() if each > self._settled}
        return bool(new)


def delete_old_changes(session: Session) -> None:
    session.execute(delete(DefinitionChange).where(DefinitionChange.created_at < now() - KEEP))
