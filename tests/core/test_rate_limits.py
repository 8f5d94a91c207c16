from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from core.database import Database, open_database
from core.errors import TooMany
from core.rate_limits import Allowance, admit
from core.settings import Settings
from core.tables import RateCounter

AT = datetime(2026, 3, 1, 12, 0, 15, tzinfo=UTC)


def test_requests_count_down(database: Database) -> None:
    assert admit(database, "k1", AT, limit=2) == Allowance(2, 1, 45)
    assert admit(database, "k1", AT + timedelta(seconds=5), limit=2) == Allowance(2, 0, 40)
    with pytest.raises(TooMany, match="2 requests") as error:
        admit(database, "k1", AT + timedelta(seconds=44), limit=2)
    assert error.value.retry_after == 1


def test_keys_and_minutes_count_apart(database: Database) -> None:
    later = AT + timedelta(seconds=45)
    assert [admit(database, *each, limit=1).remaining for each in (("k1", AT), ("k2", AT), ("k1", later))] == [0] * 3


def test_minutes_that_are_over_are_not_kept(database: Database) -> None:
    for minute in range(5):
        admit(database, "k1", AT + timedelta(minutes=minute))
    with database.read() as session:
        assert session.query(RateCounter).count() == 1


def ask(settings: Settings, requests: int, admitted: multiprocessing.Queue[int]) -> None:
    database = open_database(settings)

    def one(_: int) -> bool:
        try:
            admit(database, "k1", AT)
        except TooMany:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        admitted.put(sum(pool.map(one, range(requests))))
    database.close()


def test_of_1200_requests_to_three_processes_exactly_1000_are_admitted(settings: Settings, database: Database) -> None:
    context = multiprocessing.get_context("spawn")
    admitted: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=ask, args=(settings, 400, admitted)) for _ in range(3)]
    for process in processes:
        process.start()
    assert sum(admitted.get(timeout=60) for _ in processes) == 1000
    for process in processes:
        process.join()
