"""Pipelines that begin with several addresses are equal on both runners and in a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.contract.context import RunContext
from pipelines.contract.request import Files
from pipelines.errors import RunError
from pipelines.stages.documents import read_addresses
from tests.support.pipelines import TITLE, find_problem
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

PAGES = {
    "/a": "<h1>A</h1><a class=next href=/c>c</a>",
    "/b": "<h1>B</h1><a class=next href=/a>a</a><a class=next href=/d>d</a>",
    "/c": "<h1>C</h1>",
    "/d": "<h1>D</h1>",
}
KEPT = "spindle: {keepColumns: [_requestedUrl, _error]}"
LIST = "fetch: {url: ['${B}/a', '${B}/b', '${B}/a']}"
FILE = "fetch: {file: '${FOLDER}/urls.txt'}"
BEGINNINGS: Mapping[str, tuple[str, Sequence[str | None]]] = {
    "a list": (f"{LIST}\npipeline: [{TITLE}]", ["A", "B", "A"]),
    "a list of one": (f"fetch: {{url: ['${{B}}/a']}}\npipeline: [{TITLE}]", ["A"]),
    "a list without the key fetch": (
        f"pipeline: [{{stage: wget, args: [['${{B}}/b', '${{B}}/a']]}}, {TITLE}]",
        ["B", "A"],
    ),
    "a file": (f"{FILE}\npipeline: [{TITLE}]", ["B", None, "A"]),
    "a list, explored": (
        f"{LIST}\npipeline: [{{stage: explore, args: [a.next, 1]}}, {TITLE}]",
        ["A", "C", "B", "D"],
    ),
    "a list and its links": (f"{LIST}\npipeline: [{{stage: join, args: [a.next]}}, {TITLE}]", ["C", "A", "D", "C"]),
    "a list for each row": (
        f"{LIST}\npipeline: [{{stage: wget, args: [['${{B}}/c', '${{B}}/d']]}}, {TITLE}]",
        ["C", "D"] * 3,
    ),
    "a file with a header of its own": (
        f"fetch: {{file: '${{FOLDER}}/urls.txt', headers: {{X-A: b}}}}\npipeline: [{TITLE}]",
        ["B", None, "A"],
    ),
    "a CSV": (
        f"pipeline: [{{stage: load_csv, args: ['${{FOLDER}}/in.csv']}}, {{stage: wget, args: [$page]}}, {TITLE}]",
        ["B", "A"],
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("text", "titles"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_several_addresses_give_the_same_rows_everywhere(
    text: str, titles: Sequence[str | None], runners: Runners, site: Site, tmp_path: Path
) -> None:
    base = site.serve(PAGES)
    (tmp_path / "urls.txt").write_text(f"\ufeff{base}/b\n\n# two more\nmailto:x\n  {base}/a\n")
    (tmp_path / "in.csv").write_text(f"page,n\n{base}/b,1\n{base}/a,2\n")
    plan = runners.plan(f"{text}\n{KEPT}", B=base, FOLDER=str(tmp_path))
    outcome = runners.assert_equal(plan)
    assert outcome.failure is None
    assert [row["title"] for row in outcome.preview] == titles
    if "mailto" in str(outcome.preview):
        assert outcome.preview[1]["_error"] == "'mailto:x' is not an http or https address"
    assert [row["title"] for row in try_rows(plan)] == titles


@pytest.mark.long
def test_a_limit_fetches_as_many_addresses(runners: Runners, site: Site) -> None:
    plan = runners.plan(f"{LIST}\npipeline: [{TITLE}]", B=site.serve(PAGES))
    outcome = runners.assert_equal(plan, limit=1)
    assert outcome.requests == {"/a": 1}


def test_addresses_of_a_dataset_are_those_of_its_column_url(tmp_path: Path) -> None:
    tables = {"one": {"n": [1, 2], "url": ["http://a/", None]}, "two": {"page": ["http://b/"]}}
    tables["three"] = {"n": [1], "page": ["http://c/"]}
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    context = RunContext(inputs={name: Files((str(tmp_path / f"{name}.parquet"),), "parquet") for name in tables})
    assert read_addresses("one", context) == ["http://a/"]
    assert read_addresses("two", context) == ["http://b/"]
    with pytest.raises(RunError, match="no column url"):
        read_addresses("three", context)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("fetch: {url: [http://a/, x]}\npipeline: []", "invalid-argument"),
        ("fetch: {url: []}\npipeline: []", "invalid-argument"),
        ("fetch: {url: http://a/, file: x.txt}\npipeline: []", "conflicting-arguments"),
        (
            f"fetch: {{url: http://a/}}\npipeline: [{TITLE}, {{stage: wget, args: {{file: x}}}}]",
            "conflicting-arguments",
        ),
    ],
)
def test_addresses_that_cannot_be_are_a_problem(text: str, code: str) -> None:
    problem = find_problem(text)
    assert problem.code == code
    assert problem.line
