"""load_rows gives the rows of a file on both runners and in a trial, in its order and with the types of uploads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.contract.request import GIVEN_ROWS, Files
from pipelines.errors import RunError
from pipelines.stages.given_rows import MAX_ROWS, InvalidRows, check_rows
from tests.support.cases import each_case
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

PIPELINE = """
pipeline:
  - {stage: load_rows}
  - {stage: wget, args: [$url]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""
TEXT = "\ufeff{0}/a\n# no row\n\n  {0}/gone  \n{0}/b"
CSV = 'url,sku\n{0}/a,007\n{0}/b,"1, 2"\n,\n'
LINES = """{{"url": "{0}/a", "n": 1.50, "day": "2026-01-02", "tags": [{{"k": 1}}]}}
"{0}/b"
{{"n": 2, "more": {{"x": null}}}}
"""


def write_rows(folder: Path, name: str, content: str) -> dict[str, Files]:
    (folder / name).write_text(content, encoding="utf-8")
    return {GIVEN_ROWS: Files((str(folder / name),))}


@pytest.mark.parametrize(
    ("name", "content", "titles"),
    [("a.txt", TEXT, ["A", None, "B"]), ("b.csv", CSV, ["A", "B", None]), ("c.jsonl", LINES, ["A", "B", None])],
)
def test_the_rows_of_a_file_are_equal_on_both_runners_and_in_a_trial(
    runners: Runners, site: Site, tmp_path: Path, name: str, content: str, titles: list[str | None]
) -> None:
    base = site.serve({"/a": "<h1>A</h1>", "/b": "<h1>B</h1>", "/gone": 404})
    runners.inputs = write_rows(tmp_path, name, content.format(base))
    tried = try_rows(PIPELINE, inputs=runners.inputs)
    assert [row["title"] for row in tried] == titles
    outcome = runners.assert_equal(runners.plan(PIPELINE))
    assert [row["title"] for row in outcome.preview] == titles
    if name == "c.jsonl":
        types = {"url": "string", "day": "date", "tags": "array<struct<k:bigint>>"}
        assert dict(outcome.columns).items() >= types.items()
        assert (tried[0]["tags"], tried[1]["n"]) == ([{"k": 1}], None)


@each_case(
    ("values", "sentence"),
    [
        ([], "there are no rows"),
        (["http://a.test/"] * (MAX_ROWS + 1), "10,001 rows, and an execution may be given 10,000"),
        (["http://a.test/", 3], "row 2 is a number; a row is an address, or an object of columns"),
        ([None], "row 1 is null"),
        (["shop.example/a"], "row 1 is no address of http or https: 'shop.example/a'"),
        ([{}], "row 1 has no columns"),
        ([{"": 1}], "row 1 cannot be used: a column must have a name"),
        ([{"_error": 1}], "a column cannot be called _error"),
        ([{"__link": 1}], "begins with __"),
        ([{"a": 1}, {"A": 1}], "row 2 has a column 'A' beside 'a'"),
        ([{"a": "\ud800"}], "row 1 has a text that is not Unicode"),
    ],
)
def test_what_is_no_row_is_said(values: list[object], sentence: str) -> None:
    with pytest.raises(InvalidRows) as error:
        check_rows(values)
    assert sentence in str(error.value)


@each_case(
    ("name", "content", "problem"),
    [
        ("a.jsonl", '{"url": 1}\n{"url"', "line 2 is not JSON"),
        ("a.csv", "url,n\nx,1,2\n", "line 2 has more values than the header"),
        ("a.csv", 'url\n"x', "is not CSV"),
        ("a.json", "[[1]]", "row 1 is a list"),
        ("a.txt", "# nothing", "there are no rows"),
    ],
)
def test_a_file_without_rows_is_an_error(tmp_path: Path, name: str, content: str, problem: str) -> None:
    with pytest.raises(RunError, match=problem):
        try_rows(PIPELINE, inputs=write_rows(tmp_path, name, content))
