"""Small Parquet files give the same rows on both runners, in the same order; all others go to Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import NeedsSpark
from tests.support.runners import Runners

AT = datetime(2026, 1, 1, 12, 30, 0, 5, tzinfo=UTC)
TYPED = pa.table(
    {
        "text": ["b", None, "a", "Köln"],
        "number": pa.array([2, None, 1, 2], pa.int32()),
        "small": pa.array([1, 2, None, 4], pa.int8()),
        "part": [1.5, float("nan"), None, -0.0],
        "single": pa.array([1.5, None, 2.5, 0.0], pa.float32()),
        "exact": pa.array([Decimal("1.10"), None, Decimal("2.20"), Decimal("0.00")], pa.decimal128(10, 2)),
        "day": [date(2026, 1, 1), None, date(1969, 1, 1), date(9999, 12, 31)],
        "at": pa.array([AT, None, AT, AT], pa.timestamp("us", "UTC")),
        "local": pa.array([AT.replace(tzinfo=None)] * 4, pa.timestamp("us")),
        "raw": [b"\x00", None, b"a", b""],
        "ok": [True, None, False, True],
        "kind": pa.array([7, None, 8, 7]).dictionary_encode(),
    }
)


@pytest.mark.parametrize(
    "stages",
    [
        ", {stage: sort, args: [number, {column: text, desc: true}]}, {stage: limit, args: [3]}",
        ", {stage: dedup, args: [number, text]}, {stage: sort, args: [exact, text]}",
        ", {stage: sql_query, args: ['SELECT text, sum(part) AS n FROM rows GROUP BY 1 ORDER BY 1', {dialect: trino}]}",
    ],
)
def test_rows_of_several_files_are_equal_on_both_runners(runners: Runners, tmp_path: Path, stages: str) -> None:
    for number in range(3):
        pq.write_table(TYPED.slice(number), tmp_path / f"part-{2 - number}.parquet", row_group_size=2)
    outcome = runners.assert_equal(runners.plan(f"pipeline: [{{stage: load_parquet, args: ['{tmp_path}']}}{stages}]"))
    assert outcome.failure is None
    assert outcome.stored


def test_the_rows_of_a_file_keep_their_order(runners: Runners, tmp_path: Path) -> None:
    pq.write_table(pa.concat_tables([TYPED] * 3), tmp_path / "all rows.parquet", row_group_size=2)
    outcome = runners.assert_equal(
        runners.plan(f"pipeline: [{{stage: load_parquet, args: ['{tmp_path}/all rows.parquet']}}]")
    )
    assert outcome.failure is None
    assert len(outcome.ordered) == 12
    assert [dict(outcome.columns)[name] for name in ("small", "at", "local", "kind")] == [
        "tinyint", "timestamp", "timestamp_ntz", "bigint",
    ]  # fmt: skip


OTHERS = {
    "lists": pa.table({"a": [[1]]}),
    "twice": pa.table({"a": [1], "A": [2]}),
    "engine": pa.table({"_url": ["x"]}),
    "folders": pa.table({"a": [1], "b": [2]}),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_left_to_spark(runners: Runners, tmp_path: Path, kind: str) -> None:
    pq.write_to_dataset(OTHERS[kind], tmp_path, ["b"] if kind == "folders" else None)
    _assert_needs_spark(runners, tmp_path)


def test_files_of_different_columns_are_left_to_spark(runners: Runners, tmp_path: Path) -> None:
    for name in "ab":
        pq.write_table(pa.table({name: [1]}), tmp_path / f"{name}.parquet")
    _assert_needs_spark(runners, tmp_path)


def _assert_needs_spark(runners: Runners, folder: Path) -> None:
    plan = runners.plan(f"pipeline: [{{stage: load_parquet, args: ['{folder}']}}]")
    with pytest.raises(NeedsSpark):
        runners.run_locally(plan)
