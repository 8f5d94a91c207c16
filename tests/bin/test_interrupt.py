"""`bin/spindle run` on a terminal where somebody presses Ctrl-C, or where a run cannot begin or end well."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from pipelines.browser.model import find_missing_browser
from tests.bin.test_scripts import CLONE, run
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import Site, serve_site

SLOW = """
fetch: {{url: "{site}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}]}}
spindle: {{engine: {engine}, timeout: 3600}}
"""


class _StalledSite(BaseHTTPRequestHandler):
    """A first page whose links are requested and never answered before the test ends."""

    stalled = threading.Event()
    ended = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/1":
            self.stalled.set()
            self.ended.wait()
            return
        body = b"" if self.path == "/robots.txt" else b"<a href=/1>1</a>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _has_java(parent: int) -> bool:
    return any(child.name() == "java" for child in psutil.Process(parent).children(recursive=True))


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "moment"),
    [
        ("local", "fetch"),
        pytest.param("spark", "start", marks=pytest.mark.long),
        pytest.param("spark", "fetch", marks=pytest.mark.long),
    ],
)
def test_an_interrupted_run_says_so_without_traces(engine: str, moment: str, tmp_path: Path) -> None:
    _StalledSite.stalled.clear()
    _StalledSite.ended.clear()
    file, log = tmp_path / "slow.yaml", tmp_path / "log"
    with ThreadingHTTPServer(("127.0.0.1", 0), _StalledSite) as server:
        threading.Thread(target=server.serve_forever).start()
        file.write_text(SLOW.format(site=f"http://127.0.0.1:{server.server_port}", engine=engine))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [CLONE / ".venv/bin/spindle", "run", file],
                cwd=CLONE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            reached = _StalledSite.stalled.is_set if moment == "fetch" else lambda: _has_java(process.pid)
            wait_until(lambda: reached() or process.poll() is not None, PATIENCE_SECONDS)
            time.sleep(0 if moment == "fetch" else 2)  # into the start of the session
            os.killpg(process.pid, signal.SIGINT)  # a terminal's Ctrl-C goes to the whole group
            code = process.wait(PATIENCE_SECONDS)
        finally:
            _StalledSite.ended.set()
            process.kill()
            server.shutdown()
    printed = log.read_text()
    assert (code, printed.splitlines()[-1]) == (130, "Stopped"), printed
    assert "Exception" not in printed
    assert "Traceback" not in printed
    assert len(printed.splitlines()) < 10, printed


CHAIN = """
spindle: {{engine: {engine}{more}}}
fetch: {{url: "{site}/1", paginate: {{next: a}}}}
pipeline:
- {{stage: extract, args: [{{selector: h1, as: name}}]}}
"""
EXPLORE = """
spindle: {{engine: {engine}{more}}}
fetch: {{url: "{site}/1"}}
pipeline:
- {{stage: explore, args: [a, 9]}}
- {{stage: extract, args: [{{selector: h1, as: name}}]}}
"""


@pytest.fixture
def chained() -> Iterator[Site]:
    with serve_site() as site:
        site.serve({f"/{n}": f"<h1>{n}</h1><a href=/{n + 1}>next</a>" for n in range(1, 7)})
        yield site


def _interrupt(site: Site, held: str, text: str, folder: Path, *options: str, **fields: str) -> tuple[int, str]:
    """Run into a page that is on hold, press Ctrl-C; return the exit code and what is printed, as one line."""
    (folder / "crawl.yaml").write_text(text.format(site=site.url, **fields))
    site.hold({held})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [CLONE / ".venv/bin/spindle", "run", "crawl.yaml", *options],
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(lambda: bool(site.requests[held]) or process.poll() is not None, PATIENCE_SECONDS)
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        site.hold(())
    return code, " ".join((folder / "log").read_text().split())


def _list_names(file: Path) -> list[str]:
    return [row["name"] for row in csv.DictReader(file.read_text().splitlines())]


@pytest.mark.long
@pytest.mark.parametrize("text", [CHAIN, EXPLORE])
def test_an_interrupted_run_writes_the_rows_of_the_pages_so_far(text: str, chained: Site, tmp_path: Path) -> None:
    code, printed = _interrupt(chained, "/5", text, tmp_path, "-o", "rows.csv", engine="auto", more="")
    assert (code, _list_names(tmp_path / "rows.csv")) == (130, ["1", "2", "3", "4"]), printed
    assert "Stopped: 4 rows are in rows.csv. To go on, run it again; with --cache FOLDER" in printed
    assert "Traceback" not in printed


@pytest.mark.long
def test_an_interrupted_run_in_the_browser_writes_its_rows_and_ends_it(chained: Site, tmp_path: Path) -> None:
    if missing := find_missing_browser():
        pytest.skip(missing)
    text = EXPLORE.replace("stage: explore", "stage: visitExplore")
    code, printed = _interrupt(chained, "/3", text, tmp_path, "-o", "rows.csv", engine="auto", more="")
    assert (code, _list_names(tmp_path / "rows.csv")) == (130, ["1", "2"]), printed
    assert "Stopped: 2 rows are in rows.csv. To go on, run it again; with --cache FOLDER" in printed
    assert ("Traceback" in printed, "Exception" in printed) == (False, False), printed
    wait_until(lambda: not _list_processes(tmp_path), PATIENCE_SECONDS)


def _list_processes(folder: Path) -> list[str]:
    """Return the names of the processes in the folder, which a browser has in common with its run."""
    return [each.name() for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(folder)]


@pytest.mark.long
def test_an_interrupted_run_goes_on_from_its_cache(chained: Site, tmp_path: Path) -> None:
    options = ("-o", "rows.csv", "--cache", "pages")
    code, printed = _interrupt(chained, "/5", CHAIN, tmp_path, *options, engine="auto", more=", cache: 3600")
    assert (code, "run it again: pages in the folder of --cache" in printed) == (130, True), printed
    again = run(".venv/bin/spindle", "run", str(tmp_path / "crawl.yaml"), "-o", str(tmp_path / "rows.csv"),
                "--cache", str(tmp_path / "pages"))  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert _list_names(tmp_path / "rows.csv") == ["1", "2", "3", "4", "5", "6"]
    assert [chained.requests[f"/{n}"] for n in range(1, 7)] == [1, 1, 1, 1, 2, 1]


@pytest.mark.long
def test_an_interrupted_incremental_run_goes_on_after_its_last_row(chained: Site, tmp_path: Path) -> None:
    options, text = ("-o", "rows.csv", "--cache", "pages"), EXPLORE
    code, printed = _interrupt(chained, "/5", text, tmp_path, *options, engine="auto", more=", incremental: true")
    assert (code, "run it again with --append" in printed) == (130, True), printed
    again = run(".venv/bin/spindle", "run", str(tmp_path / "crawl.yaml"), "-o", str(tmp_path / "rows.csv"), "--append",
                "--cache", str(tmp_path / "pages"))  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert _list_names(tmp_path / "rows.csv") == ["1", "2", "3", "4", "5", "6"]


def test_an_interrupted_run_without_rows_keeps_the_file(chained: Site, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("name\nearlier\n")
    code, printed = _interrupt(chained, "/1", CHAIN, tmp_path, "-o", "rows.csv", engine="auto", more="")
    assert (code, _list_names(tmp_path / "rows.csv")) == (130, ["earlier"])
    assert "no row was done, and rows.csv is as it was" in printed


@pytest.mark.long
def test_an_interrupted_run_on_spark_says_that_no_row_is_written(chained: Site, tmp_path: Path) -> None:
    code, printed = _interrupt(chained, "/5", CHAIN, tmp_path, "-o", "rows.csv", engine="spark", more="")
    assert (code, (tmp_path / "rows.csv").exists(), printed.endswith("Stopped")) == (130, False, True), printed
    assert "With Spark, rows are written at the end alone: rows.csv is as it was. To go on" in printed


@pytest.mark.long
def test_an_output_that_cannot_be_written_is_refused_before_the_crawl(tmp_path: Path, web: Site) -> None:
    (tmp_path / "folder.json").mkdir()
    file = tmp_path / "pipeline.yaml"
    file.write_text(SLOW.format(site=web.serve({"/": "<h1>One</h1>"}), engine="auto"))
    for output in (tmp_path / "nowhere" / "rows.json", tmp_path / "folder.json"):
        refused = run(".venv/bin/spindle", "run", str(file), "-o", str(output))
        assert (refused.returncode, "cannot be written" in refused.stderr.replace("\n", " ")) == (1, True), refused
        assert "Traceback" not in refused.stderr
    assert web.requests == {}


@pytest.mark.long
def test_java_that_cannot_start_is_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    (tmp_path / "a.csv").write_text("a\n1\n")
    stages = f"[{{stage: load_csv, args: [{tmp_path}/a.csv]}}, {{stage: sql_query, args: [SELECT a FROM rows]}}]"
    (tmp_path / "sql.yaml").write_text(f"pipeline: {stages}\n")
    for home in (tmp_path / "nowhere", tmp_path):
        failed = run(".venv/bin/spindle", "run", str(tmp_path / "sql.yaml"), JAVA_HOME=str(home))
        printed = failed.stderr.replace("\n", "")
        assert failed.returncode == 1
        assert "JAVA_HOME" in printed
        assert home == tmp_path or "sql_query in line 1 needs Spark, and there is no Java" in printed
        assert len(failed.stderr.splitlines()) < 10, failed.stderr
        assert "Traceback" not in failed.stderr


@pytest.mark.long
def test_a_data_folder_that_holds_no_files_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for data in (file / "data", Path("/proc/spindle"), Path("/proc/sys")):
        refused = run(".venv/bin/spindle", "up", "--data", str(data))
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
        assert f"{data} cannot be the data folder" in refused.stderr
