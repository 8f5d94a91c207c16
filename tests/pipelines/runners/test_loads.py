"""Small files of Parquet and JSON give the same rows on both runners, in the same order; all others go to Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import NeedsSpark
from pipelines.language.engines import Growth
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


@pytest.mark.parametrize(
    "rest",
    [
        ", {stage: filter, args: [\"number > 1 AND NOT text IN ('a') OR ok = true\"]}]",
        ", {stage: filter, args: [part >= 1.5]}]\nchecks: [{check: not_null, columns: [number], severity: quarantine, "
        "maxShare: 1}, {check: accepted_values, column: text, values: [a, b], severity: warn}]",
    ],
    ids=["filter", "checks"],
)
def test_loaded_rows_are_filtered_and_checked_alike(runners: Runners, tmp_path: Path, rest: str) -> None:
    pq.write_table(pa.concat_tables([TYPED] * 2), tmp_path / "rows.parquet")
    text = f"pipeline: [{{stage: load_parquet, args: ['{tmp_path}/rows.parquet']}}{rest}"
    outcome = runners.assert_equal(runners.plan(text))
    assert outcome.failure is None
    assert outcome.stored


@pytest.mark.parametrize(
    "rest",
    [
        ", {stage: filter, args: ['exact > 1']}]",
        "]\nchecks: [{check: expression, sql: exact < 2, severity: warn}, {check: row_count, max: 3}]",
        "]\nchecks: [{check: filled, column: nothing}]",
    ],
    ids=["filter", "checks", "a check of no column"],
)
def test_what_only_spark_does_with_loaded_types_goes_on_with_it(runners: Runners, tmp_path: Path, rest: str) -> None:
    pq.write_table(TYPED, tmp_path / "rows.parquet")
    plan = runners.plan(f"pipeline: [{{stage: load_parquet, args: ['{tmp_path}/rows.parquet']}}{rest}")
    outcome, grown = runners.run_growing(plan, Growth())
    assert (grown is None) == ("nothing" in rest)
    runners.assert_same(outcome, runners.run_on_spark(plan))
    if grown:
        with pytest.raises(NeedsSpark):
            runners.run_locally(plan)


JSON_LINES = """
{"name": "b", "whole": 1, "part": 1.5, "ok": true, "day": "2026-01-02", "at": "2026-01-02T03:04:05Z", "mixed": 1}
{"name": null, "whole": 9007199254740993, "part": 2, "ok": null, "day": "0001-01-01", "at": null, "mixed": "x"}

{"whole": -1, "part": 1e300, "ok": false, "local": "2026-01-02 03:04", "big": 12345678901234567890, "none": null}
{"name": "K\\u00f6ln \\ud83d\\ude00", "part": -0.0, "text": "1e5", "exact": 0.1000000000000000055511151231257827}
"""


def test_json_lines_are_equal_on_both_runners(runners: Runners, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(JSON_LINES)
    stages = (
        f"{{stage: load_json, args: ['{tmp_path}/rows.jsonl']}}, {{stage: filter, args: [whole IS NULL OR ok = true]}}"
    )
    for pipeline in (stages, stages.partition(", {stage: filter")[0]):
        outcome = runners.assert_equal(runners.plan(f"pipeline: [{pipeline}]"))
        assert outcome.failure is None
        assert outcome.stored


@pytest.mark.parametrize("text", ['{"a": [1]}', '[{"a": 1}]', '{"a": 1, "A": 2}', "{'a': 1}", '{"a": 1}\n[2]'])
def test_other_json_is_left_to_spark(runners: Runners, tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.json").write_text(f"{text}\n")
    with pytest.raises(NeedsSpark):
        runners.run_locally(runners.plan(f"pipeline: [{{stage: load_json, args: ['{tmp_path}/rows.json']}}]"))


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
