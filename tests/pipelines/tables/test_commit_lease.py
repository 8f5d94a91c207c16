"""The lease of a table in a bucket: one writer at a time has it, and that of an ended one is taken."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipelines.tables import commit_lease
from pipelines.tables.commit_lease import NAME, hold_lease
from tests.support.s3 import Bucket, get_bucket
from tests.support.service import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.long
WRITERS, COMMITS = 3, 4


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    bucket = get_bucket()
    for name, value in bucket.user_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(commit_lease, "_POLL_SECONDS", 0.02)
    bucket.put("table/rows.parquet", b"")
    return bucket


def test_one_writer_at_a_time_has_the_lease(bucket: Bucket) -> None:
    assert count_commits(f"{bucket.address}/table") == WRITERS * COMMITS
    assert bucket.list("table") == ["table/rows.parquet"]


def test_one_writer_at_a_time_commits_on_a_disk(tmp_path: Path) -> None:
    assert count_commits(str(tmp_path / "tables" / "delta")) == WRITERS * COMMITS
    assert [path.name for path in tmp_path.rglob("*")] == ["tables"]


def count_commits(location: str) -> int:
    """Return the number that all writers together have counted to, of which each had the lease."""
    number = 0

    def write() -> None:
        nonlocal number
        for _ in range(COMMITS):
            with hold_lease(location):
                before = number
                time.sleep(0.01)  # in which others would read the same number
                number = before + 1

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return number


def test_the_lease_of_an_ended_writer_is_taken_and_a_renewed_one_is_not(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_lease, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(commit_lease, "_RENEW_SECONDS", 0.1)
    bucket.put(f"table/{NAME}", b"of a writer that was killed")
    second = threading.Event()

    def write() -> None:
        with hold_lease(f"{bucket.address}/table"):
            second.set()

    with hold_lease(f"{bucket.address}/table"):
        waiting = threading.Thread(target=write)
        waiting.start()
        assert not second.wait(3), "the first renews it"
    waiting.join(PATIENCE_SECONDS)
    assert second.is_set()
    wait_until(lambda: bucket.list("table") == ["table/rows.parquet"], PATIENCE_SECONDS)


class UnconditionalServer(BaseHTTPRequestHandler):
    """Answers as servers do that know no conditional PUT."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(501)
        self.end_headers()
        self.wfile.write(b"<Error><Code>NotImplemented</Code></Error>")


def test_a_server_without_conditional_puts_gets_the_rows_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), UnconditionalServer) as server:
        threading.Thread(target=server.serve_forever).start()
        for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        with hold_lease("s3://lake/table"):
            pass
        server.shutdown()
    assert [each.levelname for each in caplog.records if each.name == commit_lease.__name__] == ["WARNING"]


def test_a_table_on_a_disk_needs_no_lease() -> None:
    with hold_lease("/nowhere/table"):
        pass
