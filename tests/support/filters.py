"""Conditions on columns of every type, and the rows that meet them by the values alone."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import combinations
from random import Random
from typing import Any

import pyarrow as pa

NAN, INFINITY = math.nan, math.inf
RANDOM_COLUMNS = 2
OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Test = Callable[[Any], bool | None]


@dataclass(frozen=True)
class Kind:
    """A type of columns: its names in Arrow and Spark, some values, and a value's text in SQL of Trino and of Spark."""

    arrow: pa.DataType
    spark: str
    values: Sequence[Any]
    write: Callable[[Any], str]


def write_double(value: float) -> str:
    return f"CAST('{_name_float(value)}' AS double)"


def write_real(value: float) -> str:
    return f"CAST('{_name_float(value)}' AS {{real}})"


def _name_float(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if math.isnan(value) else repr(value)


KINDS: Mapping[str, Kind] = {
    "double": Kind(pa.float64(), "double", (0.5, 1.1, -0.0, 0.0, NAN, INFINITY, -7.25), write_double),
    "real": Kind(pa.float32(), "float", (0.5, 2.0, -0.0, 0.0, NAN, -INFINITY, -7.25), write_real),
    "integer": Kind(pa.int32(), "int", (-3, 0, 1, 2**31 - 1), str),
    "bigint": Kind(pa.int64(), "bigint", (-(2**40), 0, 7, 2**53 + 1), lambda value: f"CAST({value} AS bigint)"),
    "decimal": Kind(
        pa.decimal128(12, 2), "decimal(12,2)", (Decimal("-1.50"), Decimal("0.00"), Decimal("1.25")),
        lambda value: f"CAST('{value}' AS decimal(12,2))",
    ),
    "amount": Kind(
        pa.decimal128(38, 18), "decimal(38,18)", (Decimal("9007199254740993.000000000000000001"), Decimal("1e-18")),
        lambda value: f"CAST('{value}' AS decimal(38,18))",
    ),
    "varchar": Kind(pa.string(), "string", ("", "a", "B", "é", "a" * 70), lambda value: f"'{value}'"),
    "boolean": Kind(pa.bool_(), "boolean", (True, False), lambda value: str(value).lower()),
    "date": Kind(
        pa.date32(), "date", (date(1969, 12, 31), date(2026, 3, 1)), lambda value: f"DATE '{value}'"
    ),
    "timestamp": Kind(
        pa.timestamp("us"), "timestamp_ntz", (datetime(1969, 12, 31, 23, 59, 59), datetime(2026, 3, 1, 8, 0, 0, 1)),  # noqa: DTZ001
        lambda value: f"{{wall}} '{value}'",
    ),
    "moment": Kind(
        pa.timestamp("us", "UTC"), "timestamp", tuple(datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (8, 9)),
        lambda value: f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S} UTC'",
    ),
}  # fmt: skip
# the types of files before and after a column has become wider, the later values, and the kind that all have then
WIDER: Mapping[str, tuple[pa.DataType, Sequence[Any], Kind]] = {
    "float to double": (pa.float32(), (1.1, 0.5, NAN), KINDS["double"]),
    "int to bigint": (pa.int32(), (1, -3), KINDS["bigint"]),
    "int to double": (pa.int32(), (1, 2), KINDS["double"]),
    "decimal to decimal": (pa.decimal128(5, 1), (Decimal("1.2"), Decimal("-1.5")), KINDS["decimal"]),
    "date to timestamp": (pa.date32(), (date(2026, 3, 1),), KINDS["timestamp"]),
}
SPARK_WORDS = {"real": "float", "wall": "TIMESTAMP_NTZ", "differs": "NOT (x <=> {})"}
TRINO_WORDS = {"real": "real", "wall": "TIMESTAMP", "differs": "x IS DISTINCT FROM {}"}


@dataclass(frozen=True)
class Condition:
    """A condition on the column x, and whether a value meets it; None where that is unknown."""

    text: str
    test: Test


def choose_columns(kind: Kind, seed: int) -> list[list[Any]]:
    """Return columns of four values: few different ones, so that bounds decide comparisons, some with nulls."""
    random, values = Random(seed), kind.values
    pairs = list(combinations(values, 2))
    chosen = random.sample(pairs, min(len(pairs), RANDOM_COLUMNS))
    if NAN in values:
        chosen += [(0.5, NAN), (-0.0, 0.0), (NAN, NAN), (-0.0, -0.0)]
    columns = [[one, other, one, one] for one, other in chosen]
    return [*columns, [values[0], None, values[0], values[-1]]]


def list_conditions(kind: Kind, words: Mapping[str, str], *, nan_is_greatest: bool) -> list[Condition]:
    """Return all comparisons of x with the kind's values, plain and in other expressions.

    NaN is neither equal nor greater in Trino; in Spark it equals itself and is greater than all else.
    """

    def order(value: Any) -> Any:
        is_nan = isinstance(value, float) and math.isnan(value)
        return (1 if is_nan else 0, 0 if is_nan else value) if nan_is_greatest else value

    def compare(sign: str, bound: Any) -> Test:
        return lambda value: None if value is None else OPERATORS[sign](order(value), order(bound))

    def is_in(bounds: Sequence[Any]) -> Test:
        return lambda value: None if value is None else any(order(value) == order(each) for each in bounds)

    def is_between(low: Any, high: Any) -> Test:
        return lambda value: None if value is None else order(low) <= order(value) <= order(high)

    def differs(bound: Any) -> Test:
        def test(value: Any) -> bool:
            both = all(isinstance(each, float) and math.isnan(each) for each in (value, bound))
            return value is None or not (both or value == bound)

        return test

    texts = [kind.write(value).format(**words) for value in kind.values]
    found: list[Condition] = []
    for number, (bound, text) in enumerate(zip(kind.values, texts, strict=True)):
        for place, sign in enumerate(OPERATORS):
            plain, test = f"x {sign} {text}", compare(sign, bound)
            others = (f"NOT ({plain})", f"({plain}) = false", f"CASE WHEN {plain} THEN false ELSE true END")
            other = others[(number + place) % len(others)]
            opposite = (lambda value, test=test: not test(value)) if other.startswith("CASE") else negate(test)
            found += [Condition(plain, test), Condition(other, opposite)]
        found.append(Condition(words["differs"].format(text), differs(bound)))
    low, high = sorted(kind.values[:2])
    bounds, middle = ", ".join(texts[:2]), f"{kind.write(low)} AND {kind.write(high)}".format(**words)
    return [
        *found,
        Condition(f"x IN ({bounds})", is_in(kind.values[:2])),
        Condition(f"x NOT IN ({bounds})", negate(is_in(kind.values[:2]))),
        Condition(f"x BETWEEN {middle}", is_between(low, high)),
        Condition(f"x NOT BETWEEN {middle}", negate(is_between(low, high))),
    ]


def negate(test: Test) -> Test:
    def negated(value: Any) -> bool | None:
        met = test(value)
        return None if met is None else not met

    return negated


def build_query(conditions: Sequence[Condition], table: str, column: str) -> str:
    """Return a query for the number of rows of a table that meet each condition, by the condition's place."""
    texts = (re.sub(r"\bx\b", column, each.text) for each in conditions)
    parts = (f"SELECT {place} AS place, count(*) AS n FROM {table} WHERE {text}" for place, text in enumerate(texts))
    return " UNION ALL ".join(parts)


def find_wrong(conditions: Sequence[Condition], values: Sequence[Any], counts: Mapping[int, int]) -> dict[str, str]:
    """Return the conditions that another number of rows met, with both numbers."""
    expected = [sum(each.test(value) is True for value in values) for each in conditions]
    return {
        f"{each.text} in {values}": f"{counts[place]}, expected {expected[place]}"
        for place, each in enumerate(conditions)
        if counts[place] != expected[place]
    }
