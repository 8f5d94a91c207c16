"""`bin/spindle run` as a person at a terminal has it: progress and rows shown, or rows written to a file."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.language.json_values import list_records
from tests.bin.test_scripts import run
from tests.support.site import Site

PAGES = {"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "<h1>One</h1>", "/2": "<h1>Two</h1>"}
READERS: dict[str, Callable[[Path], list[dict[str, str | None]]]] = {
    "parquet": lambda path: list_records(pq.read_table(path)),
    "csv": lambda path: [
        {name: text or None for name, text in row.items()} for row in csv.DictReader(path.read_text().splitlines())
    ],
    "json": lambda path: json.loads(path.read_text()),
    "jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
}
SHOUT = "def shout(row) -> {'name': str, 'loud': str}:\n    return {**row, 'loud': row['name'].upper()}\n"


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A file that follows the links of `${SITE}` and calls a function of a file beside it."""
    (tmp_path / "functions.py").write_text(SHOUT)
    file = tmp_path / "pipeline.yaml"
    file.write_text("""
fetch: {url: "${SITE}/"}
pipeline:
  - {stage: wgetJoin, args: [a]}
  - {stage: extract, args: [{selector: h1, as: name}]}
  - {stage: "python_row_transform:shout"}
""")
    return file


@pytest.mark.parametrize("runs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_rows_are_written_and_steps_are_shown_and_a_second_run_takes_the_pages_of_the_first(
    pipeline: Path, tmp_path: Path, runs: int, web: Site
) -> None:
    given = ("--transforms", str(tmp_path / "functions.py"), "--cache", str(tmp_path / "pages"))
    pipeline.write_text(pipeline.read_text() + "spindle: {cache: 3600}\n")
    address = f"SITE={web.serve(PAGES)}"
    for rows in (tmp_path / f"{number}.jsonl" for number in range(runs)):
        done = run("bin/spindle", "run", str(pipeline), "-p", address, *given, "-o", str(rows))
        assert done.returncode == 0, done.stderr
        written = [json.loads(line) for line in rows.read_text().splitlines()]
        assert written == [{"name": "One", "loud": "ONE"}, {"name": "Two", "loud": "TWO"}]
        assert "wgetJoin a" in done.stderr
        assert "2 rows, 2 pages" in done.stderr
        assert "WARNING" not in done.stderr
    assert web.requests == dict.fromkeys(PAGES, 1)


@pytest.mark.long
def test_rows_are_appended_to_the_file_and_the_output_is_written_to_its_path(
    pipeline: Path, tmp_path: Path, web: Site
) -> None:
    given = ("--transforms", str(tmp_path / "functions.py"))
    file, own = tmp_path / "rows.sqlite", tmp_path / "own.parquet"
    pipeline.write_text(pipeline.read_text() + f"output: {{path: {own}}}\n")
    given = (*given, "-p", f"SITE={web.serve(PAGES)}")
    for _ in range(2):
        done = run("bin/spindle", "run", str(pipeline), *given, "-o", str(file), "--append")
        assert done.returncode == 0, done.stderr
    assert "2 rows added to" in done.stderr
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name, count(*) FROM rows GROUP BY name").fetchall() == [
            ("One", 2),
            ("Two", 2),
        ]
    assert [row["name"] for row in READERS["parquet"](own)] == ["One", "Two"]
    refused = run("bin/spindle", "run", str(pipeline), *given, "--append")
    assert (refused.returncode, "belongs to -o FILE" in refused.stderr) == (2, True)


def test_a_folder_without_write_access_is_an_error_before_the_start(pipeline: Path) -> None:
    given = ("--transforms", str(pipeline.parent / "functions.py"), "--cache", "/proc/none")
    done = run("bin/spindle", "run", str(pipeline), "-p", "SITE=http://shop.test", *given)
    assert done.returncode == 1
    assert "pages cannot be kept in /proc/none: " in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.long)])
def test_both_engines_print_echoes_and_write_the_same_rows_in_every_format(
    engine: str, tmp_path: Path, web: Site
) -> None:
    file = tmp_path / "pipeline.yaml"
    stages = """
fetch: {url: "${SITE}/"}
pipeline:
  - {stage: wgetJoin, args: [a]}
  - {stage: extract, args: [{selector: h1, as: name}, {selector: h2, as: nothing, required: false}]}
  - {stage: echo, args: {label: names}}
spindel: {}
"""
    file.write_text(f"{stages}spindle: {{engine: {engine}}}\n")
    expected = [{"name": "One", "nothing": None}]
    address = f"SITE={web.serve(PAGES)}"
    for format_ in ("parquet", "csv", "json", "jsonl") if engine == "local" else ("parquet",):
        rows = tmp_path / f"rows.{format_}"
        done = run(".venv/bin/spindle", "run", str(file), "-p", address, "--limit", "1", "-o", str(rows))
        assert done.returncode == 0, done.stderr
        assert READERS[format_](rows) == expected
        assert "echo names 1: " in done.stderr
        assert ":7:warning:" in "".join(done.stderr.split())
        assert "1 row in" in done.stderr
    shown = run(".venv/bin/spindle", "run", str(file), "-p", address)
    assert ("One" in shown.stdout, "Two" in shown.stdout) == (True, True)


def test_a_pagination_that_was_cut_is_a_warning(tmp_path: Path, web: Site) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("""
fetch: {url: "${SITE}/1", paginate: {next: a}}
pipeline: [{stage: extract, args: [{selector: h1, as: name}]}]
spindle: {maxPages: 2}
""")
    address = web.serve({f"/{n}": f"<h1>{n}</h1><a href=/{n + 1}>next</a>" for n in range(1, 5)})
    done = run(".venv/bin/spindle", "run", str(file), "-p", f"SITE={address}")
    assert done.returncode == 0, done.stderr
    assert "warning: 1 address has more than 2 pages in line 2" in " ".join(done.stderr.split())


@pytest.mark.long
def test_a_full_heap_is_named_with_its_limit_and_the_log(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\nabc\n")
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"""
pipeline:
  - {{stage: load_csv, args: ["{tmp_path}/texts.csv"]}}
  - {{stage: sql_query, args: ["SELECT length(repeat(text, 600000000)) AS n FROM rows"]}}
spindle: {{engine: spark}}
""")
    done = run("bin/spindle", "run", str(file), SPINDLE_SPARK_DRIVER_MEMORY="480m", TMPDIR=str(tmp_path))
    assert done.returncode == 1
    told = " ".join(done.stderr.split())
    assert "java.lang.OutOfMemoryError: Java heap space; its heap is limited to 480m" in told
    (log,) = tmp_path.glob("spindle-spark-*.log")
    assert "UTF8String.repeat" in log.read_text()
    assert log.name in told.replace(" ", "")


@pytest.mark.long
def test_spark_that_ends_well_leaves_no_log(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    (tmp_path / "texts.csv").write_text("text\nabc\n")
    file.write_text(f'pipeline: [{{stage: load_csv, args: ["{tmp_path}/texts.csv"]}}]\nspindle: {{engine: spark}}')
    done = run("bin/spindle", "run", str(file), TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not [*tmp_path.glob("spindle-spark-*")]


def test_the_end_names_requests_and_failed_pages(tmp_path: Path, web: Site) -> None:
    file = tmp_path / "pipeline.yaml"
    stages = "[{stage: join, args: [a]}, {stage: extract, args: [{selector: h1, as: name}]}]"
    file.write_text(f'fetch: {{url: "${{SITE}}/"}}\npipeline: {stages}\nspindle: {{backoff: 0.1}}\n')
    address = web.serve({**PAGES, "/": PAGES["/"] + "<a href=/3>3</a><a href=/4>4</a>", "/3": 500, "/4": 500})
    done = run("bin/spindle", "run", str(file), "-p", f"SITE={address}", "-o", str(tmp_path / "rows.jsonl"))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["name"] for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == ["One", "Two"]
    lines = [line.split() for line in done.stderr.splitlines()]
    assert ["Status", "Reason", "Pages", "Retries", "Cached", "Bytes", "Seconds"] in lines
    assert ["500", "http-status", "2", "2"] in [line[:4] for line in lines]
    assert "2 of 5 pages failed:" in done.stderr
    named = next(line for line in done.stderr.splitlines() if "2 x 500 http-status: " in line)
    assert {f"{address}/3", f"{address}/4"} == set(named.partition(": ")[2].split(", "))
