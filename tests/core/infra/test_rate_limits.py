from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from core.errors import TooMany
from core.infra.database import Database, open_database
from core.infra.rate_limits import BLOCK, Allowance, RateLimiter
from core.infra.settings import Settings
from core.tables import RateCounter
from tests.support.service import PATIENCE_SECONDS

AT = datetime(2026, 3, 1, 12, 0, 15, tzinfo=UTC)
LIMIT = 1000


def test_requests_count_down(database: Database) -> None:
    limiter = RateLimiter(database, 2)
    assert limiter.admit("k1", AT) == Allowance(2, 1, 45)
    assert limiter.admit("k1", AT + timedelta(seconds=5)) == Allowance(2, 0, 40)
    with pytest.raises(TooMany) as error:
        limiter.admit("k1", AT + timedelta(seconds=44))
    assert (error.value.retry_after, error.value.details[0].code) == (1, "rate-limit")


def test_keys_and_minutes_are_counted_separately(database: Database) -> None:
    later = AT + timedelta(seconds=45)
    limiter = RateLimiter(database, 1)
    assert [limiter.admit(*each).remaining for each in (("k1", AT), ("k2", AT), ("k1", later))] == [0] * 3


def test_counters_of_earlier_minutes_are_deleted(database: Database) -> None:
    limiter = RateLimiter(database)
    for minute in range(5):
        limiter.admit("k1", AT + timedelta(minutes=minute))
    with database.read() as session:
        assert session.query(RateCounter).count() == 1


def test_remaining_decreases_by_one_although_few_requests_write(database: Database) -> None:
    limiter, writes = RateLimiter(database), 0
    for number in range(1, LIMIT + 1):
        if (allowance := limiter.spend("k1", AT)) is None:
            allowance, writes = limiter.admit("k1", AT), writes + 1
        assert allowance.remaining == LIMIT - number
    assert writes < LIMIT / 5
    with pytest.raises(TooMany):
        limiter.admit("k1", AT)


def test_an_idle_process_withholds_less_than_a_block(database: Database) -> None:
    idle, busy = RateLimiter(database), RateLimiter(database)
    for _ in range(2):  # the second request counts a block
        idle.admit("k1", AT)
    assert count_admitted(busy) == LIMIT - BLOCK - 1
    assert count_admitted(idle) == BLOCK - 1


def test_a_late_request_of_the_previous_minute_uses_the_current_block(database: Database) -> None:
    limiter = RateLimiter(database)
    for at in (AT, AT, AT - timedelta(minutes=1)):
        limiter.admit("k1", at)
    assert count_admitted(limiter) == LIMIT - 3


def count_admitted(limiter: RateLimiter, most: int = LIMIT + 1) -> int:
    for count in range(most):
        try:
            limiter.admit("k1", AT)
        except TooMany:
            return count
    return most


def send_requests(settings: Settings, requests: int, admitted: multiprocessing.Queue[int]) -> None:
    database = open_database(settings)
    limiter = RateLimiter(database)
    with ThreadPoolExecutor(8) as pool:
        admitted.put(sum(pool.map(lambda _: count_admitted(limiter, 1), range(requests))))
    database.close()


@pytest.mark.long
def test_of_1200_requests_to_three_processes_1000_are_admitted_but_for_unspent_blocks(
    settings: Settings, database: Database
) -> None:
    context = multiprocessing.get_context("spawn")
    admitted: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=send_requests, args=(settings, 400, admitted)) for _ in range(3)]
    for process in processes:
        process.start()
    total = sum(admitted.get(timeout=PATIENCE_SECONDS) for _ in processes)
    assert LIMIT - 3 * (BLOCK - 1) <= total <= LIMIT
    for process in processes:
        process.join()
