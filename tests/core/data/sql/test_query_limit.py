"""How many queries of an organization run at once, whichever process was asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from sqlalchemy import update

from core.data.sql.query_limit import count_running, hold_slot
from core.definitions.identity.limits import LimitsUpdate, change_limits
from core.errors import TooMany
from core.infra.database import Database
from core.tables import RunningQuery, now
from tests.support.shop import Shop


def test_simultaneous_queries_do_not_exceed_the_limit(shop: Shop) -> None:
    with shop.database.write() as session:
        change_limits(session, shop.organization_id, LimitsUpdate(queries_at_once=2))
    asked = Barrier(6)

    def query(database: Database) -> bool:
        try:
            with hold_slot(database, shop.organization_id, 60):
                asked.wait(60)
        except TooMany:
            asked.wait(60)
            return False
        return True

    instances = [Database(shop.database.engine, shop.settings) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(query, instances)) == 2
    with shop.database.read() as session:
        assert count_running(session, shop.organization_id) == 0


def test_the_query_of_a_killed_process_counts_until_it_would_have_ended(shop: Shop) -> None:
    with shop.database.write() as session:
        change_limits(session, shop.organization_id, LimitsUpdate(queries_at_once=1))
        session.add(RunningQuery(organization_id=shop.organization_id, expires_at=now() + timedelta(seconds=60)))
    with pytest.raises(TooMany) as refused, hold_slot(shop.database, shop.organization_id, 60):
        pass
    assert refused.value.details[0].code == "concurrency-limit"
    with shop.database.write() as session:
        session.execute(update(RunningQuery).values(expires_at=now()))
    with hold_slot(shop.database, shop.organization_id, 60), shop.database.read() as session:
        assert count_running(session, shop.organization_id) == 1
