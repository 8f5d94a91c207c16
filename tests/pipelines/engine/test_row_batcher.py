"""How many rows go to a user's function at once: as many as take little time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipelines.contract.workers import BatchWorker
from pipelines.engine.row_batcher import RowBatcher
from pipelines.extract.rows import Fetched, Row
from pipelines.fetch import Page
from pipelines.transforms.sandbox import FunctionCall, Limits, Sandbox

PAGE = Page("http://a.test/", "http://a.test/", 200, None, "text/html", None, b"", datetime(2026, 1, 1, tzinfo=UTC))


class Work:
    """A function that takes `seconds` for a row, on a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.lots: list[int] = []
        self.given = 0
        self.made: list[object] = []
        self.longest = 0.0
        self.batch = RowBatcher(BatchWorker(self._rows), self._take, lambda: self.now)

    def add(self, numbers: Iterable[int], body: bytes = b"") -> None:
        for n in numbers:
            before = self.now
            self.batch.add(Row({"n": n}, (n,), Fetched.from_page(replace(PAGE, body=body))))
            self.longest = max(self.longest, self.now - before)

    def _rows(self, rows: Sequence[Row]) -> Iterator[Iterable[Row]]:
        self.lots.append(len(rows))
        self.given += len(rows)
        for row in rows:
            self.now += self.seconds
            yield (row,)

    def _take(self, row: Row, rows: Iterable[Row]) -> None:
        assert list(rows) == [row], "each row gets what it became"
        self.made.append(row.values["n"])


def test_rows_of_a_fast_function_go_more_and_more_at_once() -> None:
    work = Work(0.0001)
    work.add(range(400))
    assert work.lots == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64]
    work.batch.flush()
    assert work.made == list(range(400))


@pytest.mark.parametrize("seconds", [0.2, 1, 10])
def test_rows_of_a_slow_function_go_one_by_one(seconds: float) -> None:
    work = Work(seconds)
    work.add(range(50))
    assert len(work.made) >= 49, "none but the last one waits"
    work.batch.flush()
    assert work.made == list(range(50))
    assert set(work.lots) == {1}
    assert work.longest == pytest.approx(seconds)


def test_of_a_function_that_becomes_slow_no_more_rows_are_waited_for_and_later_as_many_again() -> None:
    work = Work(0.0001)
    work.add(range(127))
    assert work.lots[-1] == 64
    work.seconds = 1
    work.add(range(127, 300))
    assert work.lots[7:10] == [64, 1, 1], "it was left after each one, and gone on with"
    assert work.longest == pytest.approx(1)
    assert work.given == len(work.made), "no row is given twice"
    work.seconds = 0.0001
    work.add(range(300, 1000))
    assert work.lots[-1] == 64
    work.batch.flush()
    assert work.made == list(range(1000))


def test_rows_that_take_some_time_go_a_few_at_once() -> None:
    work = Work(0.03)
    work.add(range(100))
    assert set(work.lots[5:]) == {8}
    assert work.longest < 0.5


def test_rows_do_not_wait_with_large_pages() -> None:
    work = Work(0.0001)
    work.add(range(127))
    work.lots.clear()
    work.add(range(127, 137), b"x" * 600_000)
    assert work.lots == [2] * 5
    work.add([137])
    work.batch.flush()
    assert work.made == list(range(138))


def test_a_users_process_lives_on_where_a_lot_is_left_in_between() -> None:
    text = """
import time
seen = 0
def count(row):
    global seen
    seen += 1
    time.sleep(0.6 if row["n"] == 10 else 0)
    return {"seen": seen}
"""
    box, made = Sandbox(FunctionCall("count", text, "count", {}, Limits())), list[object]()

    def rows(rows: Sequence[Row]) -> Iterator[Iterable[Row]]:
        for outcome in box.run([row.values for row in rows]):
            assert isinstance(outcome, dict)
            made.append(outcome["seen"])
            yield ()

    batch = RowBatcher(BatchWorker(rows), lambda row, made: None)
    for n in range(40):
        batch.add(Row({"n": n}, (n,)))
    batch.flush()
    box.close()
    assert made == list(range(1, 41))
