"""Cron expressions: what is accepted and stored, how it is translated, and when it fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from os import environ
from zoneinfo import ZoneInfo

import pytest
from dagster._utils.schedules import cron_string_iterator, is_valid_cron_string
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.definitions.schedules.cron import MONTHS, WEEKDAYS, WORDS, parse_cron, parse_timezone
from core.errors import BadInput
from tests.support.cases import each_case
from tests.support.shop import Shop

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Havana", "Asia/Kolkata")


def list_times(text: str, after: datetime, zone: str, number: int = 3) -> list[str]:
    """Return the next local times."""
    ticks = parse_cron(text).list_next(after, zone, number)
    return [tick.astimezone(ZoneInfo(zone)).isoformat(timespec="minutes") for tick in ticks]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("30 6 * * MON-FRI", "30 6 * * 1,2,3,4,5"),
        (" @Daily ", "0 0 * * *"),
        ("0 0 12 ? * MON-FRI", "0 12 * * 1,2,3,4,5"),
        ("0 0 12 ? * 2-6", "0 12 * * 1,2,3,4,5"),  # Quartz counts from Sunday, 1
        ("0 15 10 ? * 6#3", "15 10 * * 5#3"),
        ("0 0 12 * * ? *", "0 12 * * *"),
        ("0 0 5 * * *", "0 5 * * *"),
        ("0 5 ? * 1", "0 5 * * 1"),
        ("0 0 * * FRI-MON", "0 0 * * 0,1,5,6"),
        ("0 0 * * SAT-SUN", "0 0 * * 0,6"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 L * *", "0 0 L * *"),
        ("0 0 */10 * MON", "0 0 1,11,21,31 * 1"),
        ("0 9-17/4 * jan,JUL *", "0 9,13,17 * 1,7 *"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("50-10/10 * * * *", "50,0,10 * * * *"),
        ("0 0 30-2 NOV-JAN *", "0 0 30,31,1,2 11,12,1 *"),
        ("0 0 31 2 MON", "0 0 * 2 1"),  # either is enough, and Mondays exist
        ("*/60 */24 * * *", "*/60 */24 * * *"),
    ],
)
def test_translation(text: str, expression: str) -> None:
    assert parse_cron(text).expression == expression
    assert is_valid_cron_string(expression)


@each_case(
    ("text", "code"),
    [
        *(
            (text, "invalid-cron")
            for text in ("daily", "* * * *", "every day at five am", "-1 5 * * *", "@reboot", " ")
        ),
        *((text, "invalid-cron") for text in ("99 * * * *", "0 24 * * *", "0 0 32 * *", "0 0 0 * *", "0 0 * 13 *")),
        *((text, "invalid-cron") for text in ("0 0 * * 8", "*/0 * * * *", "R R * * *", "H * * * *", "0 0 ? * 0 ?")),
        *(
            (text, "invalid-cron")
            for text in ("* " * 200, "0 5 * * *; x", "0 0 * * MON/0", "0 0 0 ? * 8", "1,,2 * * * *")
        ),
        *((text, "invalid-cron") for text in ("*/90 * * * *", "*/75 * * * *", "0 */36 * * *", "10-20/61 * * * *")),
        *((text, "invalid-cron") for text in ("0 0 */32 * *", "0 0 1 */13 *", "0 0 * * */8", "5,*/61 * * * *")),
        *((text, "unsupported-cron") for text in ("* * * * * *", "*/5 * * * * ?", "30 0 5 * * ?", "0/1 * * * * *")),
        *((text, "unsupported-cron") for text in ("0 0 12 1 1 ? 2030", "0 0 * * 5L", "0 0 LW * *", "0 0 15W * *")),
        *((text, "unsupported-cron") for text in ("0 0 * * L", "0 0 L-3 * *", "0 0 L * FRI", "0 0 1 * MON#2")),
        *((text, "unsupported-cron") for text in ("0 0 30 2 *", "0 0 31 4,6 *", "0 0 12 * * 2-6")),
    ],
)
def test_what_cannot_be_fired_is_refused(text: str, code: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_cron(text, "schedule")
    assert (refused.value.details[0].path, refused.value.details[0].code) == ("schedule", code)


def test_timezones() -> None:
    assert parse_timezone("Europe/Berlin") == "Europe/Berlin"
    for name in ("Mars/Base", "", "../etc/passwd", "/etc/localtime", "Europe", "x" * 300, "Europe/Berlin\0"):
        with pytest.raises(BadInput) as refused:
            parse_timezone(name)
        assert refused.value.details[0].code == "unknown-timezone"


def list_fields(largest: int, smallest: int = 0, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    numbers = st.integers(smallest, largest).map(str)
    ranges = st.tuples(st.integers(smallest, largest), st.integers(smallest, largest)).map(sorted)
    steps = st.integers(1, largest + 1).map(lambda step: f"/{step}")
    spans = ranges.map(lambda pair: f"{pair[0]}-{pair[1]}")
    terms = numbers | spans | st.tuples(numbers | spans | st.just("*"), steps).map("".join)
    named = st.tuples(st.sampled_from(names), st.sampled_from(names)).map("-".join) if names else st.nothing()
    lists = st.lists(numbers | (st.sampled_from(names) if names else numbers), min_size=1, max_size=3).map(",".join)
    return st.just("*") | terms | lists | named


EXPRESSIONS = st.tuples(
    list_fields(59),
    list_fields(23),
    list_fields(31, 1) | st.just("L"),
    list_fields(12, 1, MONTHS),
    list_fields(7, 0, WEEKDAYS) | st.sampled_from(["MON#2", "5#5"]),
).map(" ".join) | st.sampled_from(sorted(WORDS))
TIMES = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001


@given(EXPRESSIONS, TIMES)
@settings(max_examples=int(environ.get("CRON_EXAMPLES", "60")), deadline=None)
def test_dagster_fires_at_the_same_times(text: str, after: datetime) -> None:
    try:
        cron = parse_cron(text)
    except BadInput:
        assume(False)
        raise
    assert is_valid_cron_string(cron.expression)
    ticks = cron.list_next(after, "UTC", 50)
    start = int(after.timestamp()) + 1
    assert ticks == [at.astimezone(UTC) for at in islice(cron_string_iterator(start, cron.expression, "UTC"), 50)]


@given(st.integers(0, 59), st.integers(0, 23), TIMES, st.sampled_from(ZONES))
@settings(max_examples=30, deadline=None)
def test_a_fixed_hour_fires_once_on_each_local_day(minute: int, hour: int, after: datetime, zone: str) -> None:
    """The law of fixed hours: at the local time, or where a day skips it at the first minute after the gap."""
    local = ZoneInfo(zone)
    ticks = parse_cron(f"{minute} {hour} * * *").list_next(after, zone, 400)
    days = [tick.astimezone(local).date() for tick in ticks]
    assert days == [days[0] + timedelta(days=number) for number in range(400)]
    for tick, day in zip(ticks, days, strict=True):
        shown = tick.astimezone(local).replace(tzinfo=None)
        wanted = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
        if shown != wanted:
            assert shown > wanted
            before = (tick - timedelta(minutes=1)).astimezone(local).replace(tzinfo=None)
            assert before < wanted


def find_changes(zone: str) -> list[datetime]:
    """Return a moment before each change of the clock in 2026."""
    days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(365)]
    local = ZoneInfo(zone)
    return [
        day for day in days if day.astimezone(local).utcoffset() != (day + timedelta(1)).astimezone(local).utcoffset()
    ]


NIGHTS = [(zone, night - timedelta(hours=8)) for zone in ZONES for night in find_changes(zone)]


@each_case("text", ["*/30 * * * *", "0 * * * *", "15 */2 * * *", "*/7 */6 * * *", "0 */2 * * *", "10 */3 * * *"])
def test_a_wildcard_of_hours_follows_real_time(text: str) -> None:
    """The law of wildcards: it fires in exactly those minutes of real time whose local time matches."""
    minutes, hours = ([*range(0, size, int(each.partition("/")[2] or 1))] if each[0] == "*" else [int(each)]
                      for each, size in zip(text.split()[:2], (60, 24), strict=True))  # fmt: skip
    assert len(NIGHTS) == 10
    for zone, after in NIGHTS:
        every = [after + timedelta(minutes=number) for number in range(1, 36 * 60)]
        local = ZoneInfo(zone)
        expected = [at for at in every if at.astimezone(local).minute in minutes and at.astimezone(local).hour in hours]
        assert parse_cron(text).list_next(after, zone, len(expected)) == expected, zone
        middle = expected[len(expected) // 3]
        assert parse_cron(text).list_next(middle, zone, 1) == [min(at for at in expected if at > middle)], zone


def test_changes_of_the_clock() -> None:
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    berlin = "Europe/Berlin"
    assert list_times("30 2 * * *", spring, berlin, 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]
    assert list_times("30 2 * * *", autumn, berlin, 2) == ["2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"]
    assert list_times("*/30 2 * * *", spring, berlin, 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]
    night = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    hourly = ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"]
    assert list_times("0 * * * *", night, berlin) == hourly


def test_expressions_are_stored_as_they_are_written(shop: Shop) -> None:
    with shop.database.write() as session:
        projects = ProjectRepository(session, shop.organization_id)
        for number, text in enumerate(["0 5 * * *", " @Daily ", "0 0 12 ? * MON#2"]):
            assert projects.create(ProjectCreate(name=f"timed {number}", cron_schedule=text)).cron_schedule == text
            assert projects.update(shop.project_id, ProjectUpdate(cron_schedule=text)).cron_schedule == text


def test_what_cannot_be_fired_is_refused_unless_it_is_there_already(shop: Shop) -> None:
    with shop.database.write() as session:
        projects = ProjectRepository(session, shop.organization_id)
        for text in ("at five", "* * * * * *", "0 0 30 2 *"):
            with pytest.raises(BadInput, match="cronSchedule"):
                projects.create(ProjectCreate(name="timed", cron_schedule=text))
            with pytest.raises(BadInput, match="cronSchedule"):
                projects.update(shop.project_id, ProjectUpdate(cron_schedule=text))
        old = projects.get(shop.project_id)
        old.cron_schedule = "0 0 12 1 1 ? 2030"
        session.flush()
        values = {"cron_schedule": old.cron_schedule, "description": "d"}
        assert projects.update(shop.project_id, ProjectUpdate(**values)).description == "d"
