"""Rows of JSON with the types and values that uploads and `load_json` give them: texts are what the file has."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

_UUID = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"
_LARGE = 12345678901234567890
JSON_TYPES: dict[str, tuple[list[str], str, list[Any]]] = {
    "texts like dates": (['"10-11-12"', '"9-1-2"'], "string", ["10-11-12", "9-1-2"]),
    "dates by the days of others": (['"01-02-2026"', '"13-02-2026"'], "string", ["01-02-2026", "13-02-2026"]),
    "words for times": (['"infinity"', '"epoch"'], "string", ["infinity", "epoch"]),
    "no time of day": (['"24:00"'], "string", ["24:00"]),
    "no time": (['"2026-01-02 24:00:00"'], "string", ["2026-01-02 24:00:00"]),
    "UUIDs": ([f'"{_UUID}"'], "string", [_UUID]),
    "digits in quotes": (['"007"', '"1"'], "string", ["007", "1"]),
    "nanoseconds": (['"2026-01-02T03:04:05.123456789"'], "string", ["2026-01-02T03:04:05.123456789"]),
    "dates": (['"2026-01-02"', "null"], "date", [date(2026, 1, 2), None]),
    "times": (['"2026-01-02T03:04:05.5"'], "timestamp_ntz", [datetime(2026, 1, 2, 3, 4, 5, 500_000)]),  # noqa: DTZ001
    "times with zones": (['"2026-01-02T03:04:05+02:00"'], "timestamp", [datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)]),
    "whole numbers": (["1", "9223372036854775807"], "bigint", [1, 2**63 - 1]),
    "large numbers": ([f"{_LARGE}", "1"], "decimal(38,0)", [Decimal(_LARGE), Decimal(1)]),
    "numbers": (["1.5", "2"], "double", [1.5, 2.0]),
    "many digits": (["1.2345678901234567891"], "decimal(38,19)", [Decimal("1.2345678901234567891")]),
    "equal digits": (["1.10", "20.00"], "decimal(38,2)", [Decimal("1.10"), Decimal("20.00")]),
    "numbers and none": (["1.5", '"Infinity"'], "double", [1.5, float("inf")]),
    "mixed values": (["1", '"x"', "true"], "string", ["1", "x", "true"]),
    "parts": (['{"n": [1, 2.5], "w": "9-1-2"}'], "struct<n:array<double>,w:string>", [{"n": [1.0, 2.5], "w": "9-1-2"}]),
    "empty objects beside others": (
        ['{"n": {}}', '{"n": {"b": 1}}', "{}"],
        "struct<n:struct<b:bigint>>",
        [{"n": {"b": None}}, {"n": {"b": 1}}, {"n": None}],
    ),
    "nothing": (["null"], "string", [None]),
}
