"""Checks end in time, also those of parts that hang."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from core.errors import Unavailable
from core.infra.checks import Check, run_checks


@pytest.fixture
def hang() -> Iterator[Callable[[], object]]:
    over = threading.Event()
    yield lambda: over.wait(60)
    over.set()


def fail() -> None:
    raise Unavailable("It is full.", code="storage-unavailable")


def test_all_parts_that_do_not_work_are_named_in_time(hang: Callable[[], object]) -> None:
    checks = [
        Check("database", lambda: None, "unavailable"),
        Check("storage", hang, "storage-unavailable"),
        Check("archive", fail, "unavailable"),
        Check("SQL engine", hang, "trino-unavailable"),
    ]
    with pytest.raises(Unavailable) as error:
        run_checks(checks, 0.3)
    assert {"check-storage", "check-SQL engine"} <= {thread.name for thread in threading.enumerate()}, "they hang"
    found = [(each.path, each.code) for each in error.value.details]
    assert found == [
        ("storage", "storage-unavailable"),
        ("archive", "storage-unavailable"),
        ("SQL engine", "trino-unavailable"),
    ]
    assert "The storage does not answer." in error.value.sentence
    run_checks(checks[:1], 5)


def test_a_check_that_hangs_has_one_thread(hang: Callable[[], object]) -> None:
    check = Check("storage that hangs", hang, "storage-unavailable")
    for _ in range(5):
        assert check.find_problem(0.01) is not None
    assert sum(thread.name == "check-storage that hangs" for thread in threading.enumerate()) == 1
