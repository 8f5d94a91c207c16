from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest
from sqlalchemy import event

from core.errors import TooMany
from core.infra.database import Database, open_database
from core.infra.rate_limits import Allowance, RateLimiter
from core.infra.settings import Settings
from core.tables import RateCounter
from tests.support.service import PATIENCE_SECONDS

AT = datetime(2026, 3, 1, 12, 0, 15, tzinfo=UTC)


def test_requests_count_down(database: Database) -> None:
    limiter = RateLimiter(database, 2)
    assert limiter.admit("k1", AT) == Allowance(2, 1, 45)
    assert limiter.admit("k1", AT + timedelta(seconds=5)) == Allowance(2, 0, 40)
    with pytest.raises(TooMany, match="2 requests") as error:
        limiter.admit("k1", AT + timedelta(seconds=44))
    assert error.value.retry_after == 1


def test_keys_and_minutes_count_apart(database: Database) -> None:
    later = AT + timedelta(seconds=45)
    limiter = RateLimiter(database, 1)
    assert [limiter.admit(*each).remaining for each in (("k1", AT), ("k2", AT), ("k1", later))] == [0] * 3


def test_minutes_that_are_over_are_not_kept(database: Database) -> None:
    limiter = RateLimiter(database)
    for minute in range(5):
        limiter.admit("k1", AT + timedelta(minutes=minute))
    with database.read() as session:
        assert session.query(RateCounter).count() == 1


def test_every_request_is_told_one_less_though_few_are_written(database: Database) -> None:
    limiter, writes = RateLimiter(database), 0
    for number in range(1, 1001):
        if (allowance := limiter.spend("k1", AT)) is None:
            allowance, writes = limiter.admit("k1", AT), writes + 1
        assert allowance.remaining == 1000 - number
    assert writes < 400
    with pytest.raises(TooMany):
        limiter.admit("k1", AT)


def test_what_one_process_does_not_spend_another_may(database: Database) -> None:
    idle, busy = RateLimiter(database), RateLimiter(database)
    for _ in range(2):
        idle.admit("k1", AT)
    idle.give_back(idle_seconds=60)
    assert admitted_by(busy) == 1000 - 47, "45 are held by the process that made two"
    idle.give_back(idle_seconds=0)
    assert idle.spend("k1", AT) is None
    assert admitted_by(busy) == 45


def test_reserves_are_given_back_once_the_key_has_used_a_quarter(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.infra.rate_limits.IDLE_SECONDS", 0)
    idle, busy = RateLimiter(database), RateLimiter(database)
    for _ in range(2):
        idle.admit("k1", AT)
    idle.give_back_scarce()
    assert idle.spend("k1", AT) is not None
    made = 3
    while busy.admit("k1", AT).remaining > 750:
        made += 1
    idle.give_back_scarce()
    assert idle.spend("k1", AT) is None
    assert made + 1 + admitted_by(busy) == 1000


def test_reserves_of_a_minute_that_is_over_are_forgotten(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    limiter = RateLimiter(database)
    for _ in range(2):
        limiter.admit("k1", AT)
    monkeypatch.setattr("core.infra.rate_limits.MINUTE_SECONDS", 0)
    limiter.give_back_scarce()
    monkeypatch.undo()
    assert limiter.spend("k1", AT) is None
    assert admitted_by(RateLimiter(database)) == 1000 - 47


def test_a_straggler_of_the_minute_before_costs_the_next_one_nothing(database: Database) -> None:
    limiter = RateLimiter(database)
    for at in (AT, AT, AT - timedelta(minutes=1)):
        limiter.admit("k1", at)
    assert admitted_by(limiter) == 1000 - 2


def test_what_is_given_back_is_never_what_is_just_being_counted(database: Database) -> None:
    limiter, slow, given_back = RateLimiter(database), Event(), Event()

    def counting(*_: object) -> None:
        slow.set()
        given_back.wait(PATIENCE_SECONDS)

    for _ in range(2):
        limiter.admit("k1", AT)
    while limiter.spend("k1", AT):
        pass
    event.listen(database.engine, "before_execute", counting, once=True)
    filling = Thread(target=limiter.admit, args=("k1", AT))
    filling.start()
    assert slow.wait(PATIENCE_SECONDS)
    limiter.give_back(idle_seconds=0)
    given_back.set()
    filling.join()
    assert limiter.spend("k1", AT) is not None
    assert admitted_by(limiter) == 1000 - 2 - 45 - 2


def admitted_by(limiter: RateLimiter) -> int:
    for count in range(1001):
        try:
            limiter.admit("k1", AT)
        except TooMany:
            return count
    raise AssertionError("more than the limit")


def ask(settings: Settings, requests: int, admitted: multiprocessing.Queue[int]) -> None:
    database = open_database(settings)
    limiter = RateLimiter(database)

    def one(_: int) -> bool:
        try:
            limiter.admit("k1", AT)
        except TooMany:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        count = sum(pool.map(one, range(requests)))
    limiter.give_back(idle_seconds=0)
    admitted.put(count)
    database.close()


def test_of_1200_requests_to_three_processes_exactly_1000_are_admitted(settings: Settings, database: Database) -> None:
    context = multiprocessing.get_context("spawn")
    admitted: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=ask, args=(settings, 400, admitted)) for _ in range(3)]
    for process in processes:
        process.start()
    assert sum(admitted.get(timeout=PATIENCE_SECONDS) for _ in processes) == 1000
    for process in processes:
        process.join()
