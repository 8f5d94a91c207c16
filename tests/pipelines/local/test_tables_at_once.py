"""Tables that local runs write in a folder and a bucket: several at once, and after one that was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pyarrow as pa
import pytest

from pipelines.contract.context import RunContext
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.history import Transition
from pipelines.errors import RunError, StorageAway
from pipelines.filesystem import STORAGE_ACCESS, S3Access
from pipelines.language.formats import HISTORY_TYPES, Mode
from pipelines.local.history import read_states
from pipelines.local.table_output import find_need, open_table, write_table
from pipelines.pipeline import Pipeline
from pipelines.tables.commits import Write
from tests.support.s3 import get_bucket

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path)
        return
    bucket = get_bucket()
    access = S3Access(bucket.name, bucket.endpoint, "us-east-1", True, bucket.access_key, bucket.secret_key, None)
    monkeypatch.setenv(STORAGE_ACCESS, access.to_json())
    yield bucket.address


def write(format_: str, location: str, number: int, target: Target, mode: Mode = Mode.APPEND) -> str:
    rows = pa.table({"id": [number], "day": [f"é {number % 2}"]})
    written = write_table(
        rows, format_, location, Write(mode, ["id"][: mode is Mode.MERGE], ["day"], f"execution-{number}", 0), target
    )
    assert written.table is not None
    return written.table.snapshot


def read(format_: str, location: str, snapshot: str | None = None) -> list[int]:
    return sorted(open_table(format_, location).read(snapshot).column("id").to_pylist())


@FORMATS
def test_versions_are_written_read_and_taken_back(place: str, format_: str) -> None:
    location = f"{place}/table/{format_}"
    target = Target(location=location)
    first = write(format_, location, 1, target)
    target = replace(target, exists=True, format=format_, snapshot=first, listed_at=2**50)
    write(format_, location, 2, target)  # which is never published
    third = write(format_, location, 3, target)
    assert (read(format_, location, first), read(format_, location, third)) == ([1], [1, 3])
    merged = write(format_, location, 3, replace(target, snapshot=third), Mode.MERGE)
    assert read(format_, location, merged) == [1, 3]
    last = write(format_, location, 4, replace(target, snapshot=merged), Mode.OVERWRITE)
    assert (read(format_, location, last), read(format_, location, merged)) == ([4], [1, 3])


@FORMATS
def test_runs_at_once_keep_the_rows_of_all(place: str, format_: str) -> None:
    location, numbers = f"{place}/table/{format_}", range(4)
    target = Target(location=location, writers=tuple(f"execution-{number}" for number in numbers))
    with ThreadPoolExecutor(len(numbers)) as pool:
        snapshots = [*pool.map(lambda number: write(format_, location, number, target), numbers)]
    assert len({*snapshots}) == len(numbers)
    assert read(format_, location) == [*numbers]


@pytest.mark.parametrize(
    ("format_", "mode", "step"),
    [
        ("delta", Mode.MERGE, "delta_table.merge_rows"),
        ("iceberg", Mode.MERGE, "iceberg_table.merge_rows"),
        ("delta", Mode.APPEND, "delta_table.LocalDeltaTable._write"),  # of the rows with their wider type
    ],
)
def test_rows_that_another_program_adds_before_the_commit_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, mode: Mode, step: str
) -> None:
    location = f"{tmp_path}/table/{format_}"
    first = pa.table({"id": pa.array([1, 2], pa.int32())})
    target = Target(location=location)
    written = write_table(first, format_, location, Write(Mode.APPEND, (), (), "execution-1", 0), target)
    assert written.table is not None
    target = replace(target, exists=True, format=format_, snapshot=written.table.snapshot, columns=written.columns)
    take_step = resolve_name(f"pipelines.local.{step}")

    def step_after_other(*given: Any, **more: Any) -> Any:
        monkeypatch.undo()
        other = open_table(format_, location)
        with other.sign(""):
            other.append(pa.table({"id": pa.array([77], pa.int32())}))
        return take_step(*given, **more)

    monkeypatch.setattr(f"pipelines.local.{step}", step_after_other)
    keys = ["id"] if mode is Mode.MERGE else []
    write_table(pa.table({"id": [2]}), format_, location, Write(mode, keys, (), "execution-2", 0), target)
    assert read(format_, location) == ([1, 2, 77] if keys else [1, 2, 2, 77])


@FORMATS
def test_a_table_that_cannot_be_read_fails_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    output = f"output: {{format: {format_}, mode: history, keys: [id]}}"
    plan = Pipeline.from_yaml(f"pipeline: [{{stage: load_csv, args: [rows.csv]}}]\n{output}").plan()

    def assert_fails(location: str, error: type[RunError], sentence: str) -> None:
        target = Target(location, True, format_, "0", columns=tuple(HISTORY_TYPES.items()))
        with pytest.raises(error, match=sentence):
            find_need(plan, RunContext(targets={OUTPUT: target}), pa.schema([("id", pa.string())]))
        with pytest.raises(error, match=sentence):
            read_states(Transition(plan.output, target, datetime.now(UTC), None))

    write(format_, f"{tmp_path}/table", 1, Target(location=f"{tmp_path}/table"))
    for file in tmp_path.rglob("*.json"):
        file.write_text('{"')
    assert_fails(f"{tmp_path}/table", RunError, "^the table cannot be read: ")
    away = S3Access("shop", "http://127.0.0.1:9", "us-east-1", True, "key", "secret", None)
    monkeypatch.setenv(STORAGE_ACCESS, away.to_json())
    assert_fails("s3://shop/table", StorageAway, "the bucket 'shop' cannot be reached")


def _write_and_die(format_: str, location: str, target: Target) -> None:
    write(format_, location, 2, target)
    os.kill(os.getpid(), signal.SIGKILL)


@FORMATS
def test_a_run_killed_before_its_report_is_published_once(tmp_path: Path, format_: str) -> None:
    location = f"{tmp_path}/table/{format_}"
    target = Target(location=location)
    target = replace(target, exists=True, format=format_, snapshot=write(format_, location, 1, target))
    killed = get_context("spawn").Process(target=_write_and_die, args=(format_, location, target))
    killed.start()
    killed.join()
    assert (killed.exitcode, read(format_, location)) == (-signal.SIGKILL, [1, 2])
    retried = write(format_, location, 2, target)  # the next attempt of the same execution
    assert read(format_, location, retried) == [1, 2]
