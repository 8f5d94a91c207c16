"""load_union, unionByName and several sources in one pipeline."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.contract.context import RunContext
from pipelines.contract.request import Files
from pipelines.errors import RunError
from tests.support.pipelines import Run, find_problem
from tests.support.site import Site


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("name;price\nlamp;3\ncup;1\n")
    (tmp_path / "b.json").write_text('{"price": 2, "name": "rug", "stock": true}\n')
    pq.write_table(pa.table({"name": ["pot"], "price": [1.5]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"name": ["pot"], "price": ["1,50"]}), tmp_path / "text.parquet")
    return str(tmp_path)


CSV = '{format: csv, path: "${F}/a.csv", options: {sep: ";", inferSchema: true}}'
JSON = '{format: JSON, path: "${F}/b.json"}'
PARQUET = '{format: parquet, path: "${F}/c.parquet"}'
PARQUET_OWN = "{format: parquet, path: own}"


@pytest.mark.long
@pytest.mark.parametrize("stage", ["load_union", "loadUnion"])
def test_sources_are_appended_by_column_name(run: Run, folder: str, stage: str) -> None:
    text = f"pipeline: [{{stage: {stage}, args: [{PARQUET}, {CSV}, {JSON}]}}]"
    assert run(text, F=folder) == [
        {"name": "pot", "price": 1.5, "stock": None},
        {"name": "lamp", "price": 3.0, "stock": None},
        {"name": "cup", "price": 1.0, "stock": None},
        {"name": "rug", "price": 2.0, "stock": True},
    ]


@pytest.mark.long
def test_a_load_union_replaces_the_rows_and_union_by_name_appends(run: Run, folder: str) -> None:
    text = f"""
pipeline:
- {{stage: load_parquet, args: [{folder}/c.parquet]}}
- {{stage: load_union, args: {{sources: [{CSV}]}}}}
- {{stage: limit, args: [1]}}
- {{stage: union_by_name, args: [{JSON}, {CSV}]}}
"""
    rows = [(row["name"], row["price"]) for row in run(text, F=folder)]
    assert rows == [("lamp", 3), ("rug", 2), ("lamp", 3), ("cup", 1)]


def test_a_union_by_name_can_be_all_there_is(run: Run, folder: str) -> None:
    assert len(run(f"pipeline: [{{stage: unionByName, args: [{CSV}]}}]", F=folder)) == 2


def test_conflicting_types_are_an_error_with_line_and_source(run: Run, folder: str) -> None:
    text = f"pipeline:\n- {{stage: load_parquet, args: [{folder}/c.parquet]}}\n- stage: unionByName\n  args:\n"
    message = "line 3: unionByName .*: the column 'price' is double in the rows so far and string in .*text.parquet"
    with pytest.raises(RunError, match=f"{message}; give it one type"):
        run(text + f"  - {{format: parquet, path: '{folder}/text.parquet'}}\n")


def test_stored_rows_of_another_type_are_an_error(run: Run, folder: str) -> None:
    text = f"""
pipeline:
- {{stage: load_parquet, args: [{folder}/c.parquet]}}
- {{stage: store, args: [numbers]}}
- {{stage: load_parquet, args: [{folder}/text.parquet]}}
- {{stage: union_with, args: [numbers]}}
"""
    with pytest.raises(RunError, match="line 6: union_with numbers: the column 'price' is string in the rows so far"):
        run(text)


@pytest.mark.long
def test_two_fetches_and_a_load_in_one_pipeline(run: Run, site: Site, folder: str) -> None:
    base = site.serve({"/a": "<p>one</p>", "/b": "<p>two</p>"})
    text = f"""
fetch: {{url: "{base}/a"}}
pipeline:
- {{stage: extract, args: [{{selector: p, as: name}}]}}
- {{stage: store, args: [first]}}
- {{stage: load_parquet, args: [{folder}/c.parquet]}}
- {{stage: store, args: [file]}}
- {{stage: reset}}
- {{stage: fetch, args: ["{base}/b"]}}
- {{stage: extract, args: [{{selector: p, as: name}}]}}
- {{stage: union_with, args: [file, first]}}
"""
    assert [row["name"] for row in run(text)] == ["two", "pot", "one"]
    assert site.requests == {"/a": 1, "/b": 1}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("[]", "'sources' is missing"),
        ("[{format: csv}]", "'path' is missing"),
        ("[{format: cvs, path: a}]", "unknown format 'cvs'; did you mean csv?"),
        ("[{format: csv, path: a, options: {headr: x}}]", "unknown argument 'headr'; did you mean header?"),
        ("[{format: csv, path: a, opts: {}}]", "unknown argument 'opts'; did you mean options?"),
        ("[{format: json, path: a, options: {multiLine: maybe}}]", "'multiLine' must be true or false"),
    ],
)
def test_wrong_sources_are_errors(args: str, message: str) -> None:
    problem = find_problem(f"pipeline:\n- {{stage: load_union, args: {args}}}")
    assert (problem.line, problem.message) == (2, f"load_union: {message}")


def test_the_own_dataset_has_no_rows_before_it_is_published(run: Run, folder: str) -> None:
    own = RunContext(inputs={"own": Files((), "parquet", columns=(("name", "string"), ("price", "double")))})
    stages = f"{{stage: load_parquet, args: [{folder}/c.parquet]}}, {{stage: union_by_name, args: [{PARQUET_OWN}]}}"
    assert run(f"pipeline: [{stages}]", own) == [{"name": "pot", "price": 1.5}]
    assert run(f"pipeline: [{{stage: load_union, args: [{PARQUET_OWN}, {PARQUET}]}}]", own, F=folder) == [
        {"name": "pot", "price": 1.5}
    ]
    assert run("pipeline: [{stage: load_csv, args: [own]}, {stage: filter, args: [price > 1]}]", own) == []
