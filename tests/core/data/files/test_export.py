"""Downloads are streams: they begin at once, and take the same memory for any number of rows."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from core.data.files.messages import ExportRequest, write_request
from core.data.processes import start_process

ROWS = 2_000_000
MAX_MEGABYTES = 300


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "rows.parquet"
    text = "md5(range::varchar) || md5((range + 1)::varchar) || md5((range + 2)::varchar)"
    sql = f"COPY (SELECT range AS id, range * 1.5 AS price, {text} AS text FROM range({ROWS})) TO '{path}'"
    duckdb.connect().execute(sql)
    return path


@pytest.mark.long
@pytest.mark.parametrize("format_", ["csv", "jsonl", "parquet"])
def test_a_download_begins_at_once_and_needs_little_memory(table: Path, tmp_path: Path, format_: str) -> None:
    process = start_process("core.data.files.worker", str(tmp_path), OMP_NUM_THREADS="2")
    assert process.stdout is not None
    columns = [("id", "BIGINT"), ("price", "DOUBLE"), ("text", "VARCHAR")]
    request = ExportRequest(str(tmp_path), [str(table)], "parquet", format_, columns)  # pyright: ignore[reportArgumentType]
    process.stdin.write(write_request(request, 300))
    process.stdin.close()
    assert process.stdout.read(2**16)
    assert process.poll() is None  # it waits for its reader, with most of the rows unread
    peak = 0
    while process.stdout.read(2**22):
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = max(peak, *(int(size) for size in re.findall(r"VmHWM:\s*(\d+)", status)), 0)
    process.stdout.close()
    assert process.wait() == 0
    assert 0 < peak // 1024 <= MAX_MEGABYTES
