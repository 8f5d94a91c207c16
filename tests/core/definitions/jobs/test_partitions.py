"""Keys of partitions: those of Dagster's own definitions, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from core.definitions.jobs.models import JobCreate
from core.definitions.jobs.partitions import Partitions, read_partitions
from core.errors import BadInput
from tests.support.cases import each_case

AT = datetime(2026, 4, 2, 9, 30, tzinfo=UTC)
DAY = {"by": "day", "start": "2026-03-01", "timezone": "Europe/Rome", "parameter": "DAY"}
COUNTRY = {"values": ["it", "fr"], "parameter": "COUNTRY"}


def read(*dimensions: dict[str, Any]) -> Partitions:
    new = JobCreate.model_validate_json(
        JobCreate.model_construct(name="x", partitions=list(dimensions)).model_dump_json(by_alias=True, warnings=False)
    )
    return read_partitions(new.to_columns()["partitions"])


@each_case(
    ("dimension", "first", "last", "number"),
    [
        ({"by": "hour", "start": "2026-04-01", "parameter": "H"}, "2026-04-01-00:00", "2026-04-02-08:00", 33),
        (DAY, "2026-03-01", "2026-04-01", 32),
        ({"by": "week", "start": "2026-03-01", "parameter": "W"}, "2026-03-02", "2026-03-23", 4),
        ({"by": "month", "start": "2026-01-15", "parameter": "M"}, "2026-02-01", "2026-03-01", 2),
        (DAY | {"end": "2026-03-10"}, "2026-03-01", "2026-03-10", 10),
    ],
)
def test_keys_are_the_periods_that_have_closed(dimension: dict[str, Any], first: str, last: str, number: int) -> None:
    keys = read(dimension).list_keys(AT)
    assert (keys[0], keys[-1], len(keys)) == (first, last, number)


def test_a_day_closes_at_midnight_of_its_timezone() -> None:
    partitions = read(DAY)
    assert partitions.list_closed(datetime(2026, 3, 30, 21, 59, tzinfo=UTC)) == ["2026-03-29"]
    assert partitions.list_closed(datetime(2026, 3, 30, 22, 0, tzinfo=UTC)) == ["2026-03-30"]
    with pytest.raises(BadInput, match="closes at 2026-04-02T22:00:00") as refused:
        partitions.check_key("2026-04-02", AT)
    assert refused.value.details[0].code == "partition-open"


def test_two_dimensions_are_in_the_order_of_their_names() -> None:
    partitions = read(DAY, COUNTRY)
    assert partitions.list_closed(AT) == ["it|2026-04-01", "fr|2026-04-01"]
    assert partitions.split("it|2026-04-01") == {"COUNTRY": "it", "DAY": "2026-04-01"}
    assert len(partitions.select_range("2026-03", "2026-03", AT)) == 2 * 31


@each_case(
    ("key", "hint"),
    [
        ("2026-02-28", "2026-03-01"),
        ("1 March", "2026-03-01"),
        ("9999-12-31", "2026-03-01"),
        ("it|2026-03-01", "a key is DAY"),
    ],
)
def test_other_keys_are_refused(key: str, hint: str) -> None:
    with pytest.raises(BadInput, match=hint) as refused:
        read(DAY).check_key(key, AT)
    assert refused.value.details[0].code == "unknown-partition"


@each_case(
    ("dimensions", "reason"),
    [
        ([{"by": "hour", "start": "2026-01-01", "timezone": "Europe/Rome", "parameter": "H"}], "comes twice"),
        ([DAY | {"timezone": "Rome"}], "timezone"),
        ([DAY, DAY | {"parameter": "D"}], "only one dimension"),
        ([DAY, COUNTRY | {"parameter": "day"}], "two parameters"),
        ([COUNTRY | {"parameter": "_url"}], "pattern"),
        ([COUNTRY | {"values": ["a|b"]}], "pattern"),
        ([COUNTRY | {"values": ["a", "a"]}], "twice"),
        ([DAY | {"end": "2026-02-01"}], "before the start"),
        ([DAY | {"until": "2026-02-01"}], "until"),
    ],
)
def test_definitions_that_would_be_ambiguous_are_refused(dimensions: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        read(*dimensions)
