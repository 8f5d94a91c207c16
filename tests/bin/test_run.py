"""`bin/spindle run` as a person at a terminal has it: progress and rows shown, or rows written to a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bin.test_scripts import run
from tests.support.site import serve_site

PAGES = {"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "<h1>One</h1>", "/2": "<h1>Two</h1>"}
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
    pipeline: Path, tmp_path: Path, runs: int
) -> None:
    given = ("--transforms", str(tmp_path / "functions.py"), "--cache", str(tmp_path / "pages"))
    with serve_site() as site:
        address = f"SITE={site.serve(PAGES)}"
        for rows in (tmp_path / f"{number}.jsonl" for number in range(runs)):
            done = run("bin/spindle", "run", str(pipeline), "-p", address, *given, "-o", str(rows))
            assert done.returncode == 0, done.stderr
            written = [json.loads(line) for line in rows.read_text().splitlines()]
            assert written == [{"name": "One", "loud": "ONE"}, {"name": "Two", "loud": "TWO"}]
            assert "wgetJoin a" in done.stderr
            assert "2 rows, 2 pages" in done.stderr
            assert "WARNING" not in done.stderr
        assert site.requests == dict.fromkeys(PAGES, 1)


def test_a_folder_without_write_access_is_an_error_before_the_start(pipeline: Path) -> None:
    given = ("--transforms", str(pipeline.parent / "functions.py"), "--cache", "/proc/none")
    done = run("bin/spindle", "run", str(pipeline), "-p", "SITE=http://shop.test", *given)
    assert done.returncode == 1
    assert "pages cannot be kept in /proc/none: " in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
