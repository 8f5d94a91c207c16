"""Rollups: whatever the period, totals and bills at its edges add up to the plain sum."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from core.definitions.identity.organizations import create_organization, find_organization
from core.errors import BadInput
from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.lifecycle.metrics.totals import Sums, summarize
from core.lifecycle.usage.bills import AMOUNTS, store_bill
from core.lifecycle.usage.periods import Grain, Period
from core.tables import Execution, ExecutionBill

NOW = datetime(2026, 5, 15, 10, tzinfo=UTC)
FIRST, LAST = datetime(2025, 12, 29, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)
TIMES = st.one_of(
    st.integers(0, 64 * 86_400 * 10**6).map(lambda microseconds: FIRST + timedelta(microseconds=microseconds)),
    st.integers(0, 64).map(lambda days: FIRST + timedelta(days=days)),
)
ENDED = st.tuples(TIMES, st.sampled_from(["p1", "p2"]), st.sampled_from(["j1", "j2"]), st.integers(0, 10**14))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    settings = Settings(data=tmp_path_factory.mktemp("totals"))
    migrate(settings)
    database = open_database(settings)
    with database.write() as session:
        create_organization(session, "acme")
    yield database
    database.close()


def _execution(session: Session, number: int, at: datetime, project: str, job: str, amount: int) -> Execution:
    owner = _owner(session)
    return Execution(
        id=str(number), organization_id=owner, project_id=project, job_id=job, agent_id="a", attempt=1 + number % 2,
        state="COMPLETED", completed_at=at, metrics={"records_processed": amount, "duration_seconds": amount % 1000},
    )  # fmt: skip


def _owner(session: Session) -> str:
    found = find_organization(session, "acme")
    return found.id


@pytest.mark.long
@given(st.lists(ENDED, max_size=10), TIMES, TIMES)
@example([(datetime(2026, 1, 31, 23, 59, 59, 999_999, UTC), "p1", "j1", 5)], FIRST, LAST)
@settings(max_examples=60)
def test_totals_are_the_plain_sums(
    database: Database, ended: list[tuple[datetime, str, str, int]], one: datetime, another: datetime
) -> None:
    period = Period(min(one, another), max(one, another))
    with database.read() as session:  # never committed: each example begins with empty tables
        for number, each in enumerate(ended):
            store_bill(session, _execution(session, number, *each))
        session.flush()
        found = summarize(session, _owner(session), period, "job")
        within = [bill for bill in session.query(ExecutionBill) if period.start <= bill.ended_at < period.end]
    assert found.summary == _plain(within)
    by_job = {job: _plain([bill for bill in within if bill.job_id == job]) for job in {bill.job_id for bill in within}}
    assert {group.id: group.sums for group in found.groups} == by_job


def _plain(bills: list[ExecutionBill]) -> Sums:
    return Sums({name: sum(getattr(bill, name) for bill in bills) for name in AMOUNTS}, {bill.job_id for bill in bills})


@given(TIMES, TIMES)
def test_parts_cover_a_period_once(one: datetime, another: datetime) -> None:
    parts = Period(min(one, another), max(one, another)).split()
    days = [*parts.days, *([parts.months] if parts.months else [])]
    spans = sorted([*parts.edges, *((_at(first), _at(last)) for first, last in days)])
    assert all(end == start for (_, end), (start, _) in pairwise(spans))
    assert (spans[0][0], spans[-1][1]) == (min(one, another), max(one, another)) if spans else one == another
    assert all(end - start < timedelta(days=1) or len(spans) == 1 for start, end in parts.edges)
    assert all(Grain.MONTH.round_down(day) == day for day in parts.months or ())


def _at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2026-01-01", "2026-01-31", ("2026-01-01T00:00", "2026-02-01T00:00")),
        ("2026-01-01T06:00:00+02:00", "2026-01-01T12:00:00", ("2026-01-01T04:00", "2026-01-01T12:00")),
        (None, None, ("2026-04-15T10:00", "2026-05-15T10:00")),
        (None, "2026-01-31", ("2026-01-02T00:00", "2026-02-01T00:00")),
        ("2026-05-01", None, ("2026-05-01T00:00", "2026-05-15T10:00")),
    ],
)
def test_dates_and_times(start: str | None, end: str | None, expected: tuple[str, str]) -> None:
    period = Period.from_texts(start, end, NOW)
    assert (period.start.isoformat()[:16], period.end.isoformat()[:16]) == expected


@pytest.mark.parametrize("text", ["", "x", "2026-13-01", "2026-02-30", "0001-01-01", "9999-12-31", "1e9", "²", "\0"])
def test_invalid_times(text: str) -> None:
    for start, end in ((text, None), (None, text)):
        with pytest.raises(BadInput, match="Date'"):
            Period.from_texts(start, end, NOW)


def test_a_period_does_not_run_backwards() -> None:
    with pytest.raises(BadInput, match="not earlier"):
        Period.from_texts("2026-02-01", "2026-01-01", NOW)
