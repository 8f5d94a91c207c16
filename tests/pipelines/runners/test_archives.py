"""load_warc gives the pages of an archive on both runners and in a trial, without a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import RunError
from tests.support.archives import write_archive
from tests.support.pipelines import TITLE
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

KEPT = "spindle: {keepColumns: [_requestedUrl, _status, _fetchedAt]}"
ANSWERS: dict[str, str | int] = {
    "/a": "<h1>Apple</h1><a href=/live>live</a>",
    "/moved": 302,
    "/b": "<h1>Beet</h1>",
    "/gone": 404,
}


@pytest.fixture
def folder(site: Site, tmp_path: Path) -> Path:
    base = site.serve({"/a": "<h1>changed</h1>", "/live": "<h1>Live</h1>"})
    write_archive(tmp_path / "1.warc.gz", ANSWERS, base)
    write_archive(tmp_path / "2.warc.gz", {"/style.css": "h1 {}"}, base, "text/css")
    write_archive(tmp_path / "3.warc.gz", {"/c": "<h1>Corn</h1>", "/d": "<h1>Dill</h1>" * 50}, base)
    cut = tmp_path / "3.warc.gz"
    cut.write_bytes(cut.read_bytes()[:-60])
    return tmp_path


def test_an_archive_is_equal_on_both_runners_and_in_a_trial(
    runners: Runners, site: Site, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"pipeline: [{{stage: load_warc, args: ['{folder}', {{type: text/html}}]}}, {TITLE}]"
    titles = ["Apple", "Beet", None, "Corn"]
    assert [row["title"] for row in try_rows(text)] == titles
    assert "3.warc.gz: it was cut" in caplog.text
    caplog.clear()
    outcome = runners.assert_equal(runners.plan(f"{text}\n{KEPT}"))
    assert outcome.stored
    assert sum(outcome.stored.values()) == 4
    assert not site.requests
    assert len(try_rows(text, 2)) == 2


def test_links_of_archived_pages_are_fetched_from_the_web(runners: Runners, site: Site, folder: Path) -> None:
    for stage in ("{stage: join, args: [a, Inner]}", "{stage: explore, args: [a, 1]}"):
        text = f"pipeline: [{{stage: load_warc, args: ['{folder}', {{include: '/a$'}}]}}, {stage}, {TITLE}]"
        assert try_rows(text)[-1] == {"title": "Live"}
        assert runners.run_locally(runners.plan(text)).requests == {"/live": 1}


def test_a_file_without_pages_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.warc").write_bytes(b"")
    for name, problem in (("x.warc", "it is empty"), ("missing", "there is no file")):
        with pytest.raises(RunError, match=problem):
            try_rows(f"pipeline: [{{stage: load_warc, args: ['{tmp_path}/{name}']}}, {TITLE}]")
