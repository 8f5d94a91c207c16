"""Casts of extracted values: what fits is converted, the rest is null."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pipelines.columns.types import parse_type
from pipelines.extract.casts import parse_cast
from pipelines.pipeline import Pipeline
from tests.support.site import serve_site
from tests.support.trials import try_rows


@pytest.mark.parametrize(
    ("cast", "value", "expected"),
    [
        ("int", " 1,234 ", 1234),
        ("int", "-7", -7),
        ("int", "2.5", None),
        ("int", "9223372036854775808", None),
        ("int", "9" * 1000, None),
        ("int", "7 pieces", None),
        ("decimal(10,2)", "1.234,56", Decimal("1234.56")),
        ("decimal(10,2)", 0.1, Decimal("0.10")),
        ("decimal(3,1)", "99.96", None),
        ("decimal(3,1)", "100", None),
        ("decimal(38,0)", "1e37", Decimal("1e37")),
        ("double", "1.234", 1.234),
        ("double", "1'234.5", 1234.5),
        ("double", "-1,5", -1.5),
        ("double", "NaN", None),
        ("double", "\u22120,005", -0.005),
        ("double", ".", None),
        ("int", "1\u2019234", 1234),
        ("int", "\u0661\u066c\u0662\u0663\u0664", 1234),
        ("decimal(10,3)", "1 234,567", Decimal("1234.567")),
        ("boolean", "Yes", True),
        ("boolean", "0", False),
        ("boolean", "maybe", None),
        ("date", "2026-11-24", date(2026, 11, 24)),
        ("date", "2026-02-30", None),
        ("timestamp", "2026-11-24T10:00:00+02:00", datetime(2026, 11, 24, 8, tzinfo=UTC)),
        ("timestamp", "2026-11-24 10:00", datetime(2026, 11, 24, 10, tzinfo=UTC)),
        ("timestamp", "Mon, 01 Sep 2025 08:00:00 GMT", datetime(2025, 9, 1, 8, tzinfo=UTC)),
        ("timestamp", "1 Sep 2025 08:00 +0200", datetime(2025, 9, 1, 6, tzinfo=UTC)),
        ("timestamp", "Mon, 99 Sep 2025 08:00:00 GMT", None),
        ("timestamp", "Wed, 02 Oct 02 08:00:00 EST", datetime(2002, 10, 2, 13, tzinfo=UTC)),
        ("timestamp", "02 Oct 99 08:00 +0200", datetime(1999, 10, 2, 6, tzinfo=UTC)),
        ("timestamp", "Wednesday, 02-Oct-02 08:00:00 GMT", datetime(2002, 10, 2, 8, tzinfo=UTC)),
        ("timestamp", "Wed, 2 October 2002 8:05:00 +02:00", datetime(2002, 10, 2, 6, 5, tzinfo=UTC)),
        ("timestamp", "Wed, 02 Oct 2002 08:00:00", datetime(2002, 10, 2, 8, tzinfo=UTC)),
        ("timestamp", "Wed, 02 Oct 2002 08:00:00 CEST (Berlin)", datetime(2002, 10, 2, 6, tzinfo=UTC)),
        ("timestamp", "Wed, 02 Oct 2002 08:00:60 Z", datetime(2002, 10, 2, 8, 0, 59, tzinfo=UTC)),
        ("date", "Wed, 02 Oct 02 23:30:00 -0800", date(2002, 10, 2)),
        ("timestamp", "02 Okt 2002 08:00 GMT", None),
        ("timestamp", "Wed, 02 Oct 2002 25:00:00 GMT", None),
        ("timestamp", "Wed, 02 Oct 2002 08:00:00 +9900", None),
        ("timestamp", "05 Jan 2024 10:30 PM", datetime(2024, 1, 5, 22, 30, tzinfo=UTC)),
        ("timestamp", "5 January 2024 9:15 p.m. EST", datetime(2024, 1, 6, 2, 15, tzinfo=UTC)),
        ("timestamp", "05 Jan 2024 12:15:30am +0100", datetime(2024, 1, 4, 23, 15, 30, tzinfo=UTC)),
        ("timestamp", "05 Jan 2024 12:15 pm", datetime(2024, 1, 5, 12, 15, tzinfo=UTC)),
        ("timestamp", "05 Jan 2024 13:15 PM", None),
        ("timestamp", "05 Jan 2024 10:30 IST", None),
        ("timestamp", "05 Jan 2024 10:30 AEST", datetime(2024, 1, 5, 0, 30, tzinfo=UTC)),
        ("timestamp", "05 Jan 2024 10:30 mest", datetime(2024, 1, 5, 8, 30, tzinfo=UTC)),
        ("date", "Monday", None),
        ("timestamp", "0001-01-01T00:00:00+05:00", None),
    ],
)
def test_what_fits_is_converted(cast: str, value: object, expected: object) -> None:
    assert parse_cast(cast).convert(value) == expected


def test_dates_have_formats() -> None:
    assert parse_cast("date", "%d.%m.%Y").convert("24.11.2026") == date(2026, 11, 24)
    assert parse_cast("timestamp", "%d %b %Y %H:%M %Z").convert("1 Sep 2025 08:00 GMT") == datetime(
        2025, 9, 1, 8, tzinfo=UTC
    )
    assert parse_cast("timestamp", "%d/%m/%y %H:%M").convert("24/11/26 09:30") == datetime(
        2026, 11, 24, 9, 30, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("cast", "pattern"),
    [("integer", None), ("decimal(39,0)", None), ("decimal(3,4)", None), ("int", "%d"), ("date", "%Q")],
)
def test_bad_casts_are_refused(cast: str, pattern: str | None) -> None:
    with pytest.raises(ValueError, match=r"none of|decimal has|a format"):
        parse_cast(cast, pattern)


PIPELINE = """
fetch: {url: "${B}/"}
pipeline:
  - stage: extract
    args:
      - {selector: .count, cast: int, as: count}
      - {selector: .price, method: price, cast: "decimal(8,2)", as: price}
      - {selector: .day, cast: date, format: "%d.%m.%Y", as: day}
      - {selector: li, all: true, cast: int, as: sizes}
      - {selector: .stock, cast: int, default: 0, as: stock}
      - {selector: .bad, cast: double, as: bad}
"""
PAGE = (
    "<b class=count>1,200</b><b class=price>€ 3,50</b><b class=day>24.11.2026</b><b class=bad>Free</b>"
    "<ul><li>38<li>x<li>40</ul>"
)


def test_extractors_cast() -> None:
    with serve_site() as site:
        plan = Pipeline.from_yaml(PIPELINE).plan({"B": site.serve({"/": PAGE})})
        (row,) = try_rows(plan, 10)
    expected: dict[str, Any] = {
        "count": 1200,
        "price": Decimal("3.50"),
        "day": date(2026, 11, 24),
        "sizes": [38, 40],
        "stock": 0,
        "bad": None,
    }
    assert row == expected
    types = dict(plan.columns.types)
    assert [pa.array([value], parse_type(types[name]))[0].as_py() for name, value in expected.items()] == [
        *expected.values()
    ]
    assert [types[name] for name in expected] == ["bigint", "decimal(8,2)", "date", "array<bigint>", "bigint", "double"]
