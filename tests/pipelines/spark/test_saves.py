"""save_csv and save_parquet: rows as files, seen when the run is complete."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipelines.contract.context import RunContext
from pipelines.contract.request import Files
from pipelines.errors import RunError
from tests.support.pipelines import Run, crawl, find_problem, load_table
from tests.support.site import Site

CSV = 'name,note\nlamp,"a ""b"", c"\ncup,\nrug,é\n'
ROWS = [{"name": "lamp", "note": 'a "b", c'}, {"name": "cup", "note": None}, {"name": "rug", "note": "é"}]


@pytest.fixture
def load(tmp_path: Path) -> str:
    return load_table(tmp_path, CSV, "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "args"),
    [
        ("save_csv", "['{path}']"),
        ("SaveCSV", "{{path: '{path}', mode: OVERWRITE}}"),
        ("save_parquet", "['{path}', overwrite]"),
        ("saveParquet", "{path}"),
        ("save_jsonl", "['{path}']"),
    ],
)
def test_saved_rows_can_be_loaded(run: Run, load: str, tmp_path: Path, stage: str, args: str) -> None:
    place = tmp_path / "saved"
    place.write_text("what lay here before")
    rows = run(load + f"- {{stage: {stage}, args: {args.format(path=place)}}}\n- {{stage: limit, args: [2]}}")
    assert rows == ROWS[:2], "rows pass on unchanged"
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "saved"}
    assert (
        run(f"pipeline: [{{stage: {stage.replace('save', 'load')}, args: [{place}]}}]".replace("Save", "load")) == ROWS
    )


@pytest.mark.long
def test_every_reader_of_csv_reads_what_save_csv_writes(run: Run, tmp_path: Path) -> None:
    texts = ['a"b', "a\\b", "a\\", "\\", '"', '\\"', 'x,y\\"z\\', "a,\\\\", "two\nlines", " blanks ", "#c", '""', "é"]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({"n": n, "text": text}) for n, text in enumerate(texts)))
    place = tmp_path / "rows.csv"
    stages = f"- {{stage: save_csv, args: [{place}]}}\n- {{stage: load_csv, args: [{place}]}}\n"
    again = run(f"pipeline:\n- {{stage: load_jsonl, args: [{tmp_path}/in.jsonl]}}\n{stages}")
    assert [row["text"] for row in again] == texts, "in the run that has written it"
    later = run(f"pipeline: [{{stage: load_csv, args: [{{path: {place}, multiLine: true}}]}}]")
    assert [row["text"] for row in later] == texts
    assert pd.read_csv(place)["text"].tolist() == texts
    assert duckdb.sql(f"SELECT text FROM '{place}' ORDER BY n").fetchall() == [(text,) for text in texts]


def test_files_with_a_backslash_before_quotes_need_an_argument(run: Run, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text('name\n"a \\"b\\", c"\n')
    assert run(f"pipeline: [{{stage: load_csv, args: [{{path: {tmp_path}/table.csv, escape: '\\'}}]}}]") == [
        {"name": 'a "b", c'}
    ]


def test_append_adds_to_a_folder(run: Run, load: str, tmp_path: Path) -> None:
    save = f"- {{stage: save_parquet, args: [{tmp_path}/all, append]}}\n"
    run(load + save)
    run(load + save)
    assert pq.read_table(tmp_path / "all").num_rows == 6


@pytest.mark.long
@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_a_name_of_a_file_gives_one_file_in_document_order(run: Run, tmp_path: Path, name: str) -> None:
    place, kind = tmp_path / name, name.removeprefix("rows.")
    numbers, load = [str(number) for number in range(9, 0, -1)], f"pipeline: [{{stage: load_{kind}, args: [{place}]}}]"
    stages = f"- {{stage: dedup, args: [n]}}\n- {{stage: save_{kind}, args: [{place}, MODE]}}"
    text = load_table(tmp_path, "\n".join(["n", *numbers]), stages)
    for _ in range(2):
        assert len(run(text.replace("MODE", "overwrite"))) == 9
        assert [row["n"] for row in run(load.replace("jsonl", "json", 1))] == numbers
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", name}
    if kind == "parquet":
        with pytest.raises(RunError, match="is a file of parquet, which cannot be lengthened"):
            run(text.replace("MODE", "append"))
        return
    run(text.replace("MODE", "append"))
    assert len(run(load.replace("jsonl", "json", 1))) == 18
    assert place.read_text().count("n\n") == (1 if kind == "csv" else 0)


@pytest.mark.long
def test_rows_appended_to_a_file_take_its_columns(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "rows.csv"
    place.write_text("a,b,c\n1,2,3")
    run(load_table(tmp_path, "c,a\n6,4\n", f"- {{stage: save_csv, args: [{place}, append]}}"))
    assert place.read_text() == "a,b,c\n1,2,3\n4,,6\n"
    with pytest.raises(RunError, match=r"line 3: save_csv .*the file '.*rows\.csv' has no column 'd'"):
        run(load_table(tmp_path, "d,a\n6,4\n", f"- {{stage: save_csv, args: [{place}, append]}}"))
    assert place.read_text() == "a,b,c\n1,2,3\n4,,6\n"


@pytest.mark.long
def test_the_run_loads_its_own_saves(run: Run, load: str, tmp_path: Path) -> None:
    place = f"{tmp_path}/all"
    append = f"- {{stage: save_csv, args: [{place}, append]}}\n- {{stage: load_csv, args: [{place}]}}\n"
    assert len(run(load + append)) == 3
    assert len(run(load + "- {stage: limit, args: [1]}\n" + append)) == 4


def test_a_failed_run_leaves_the_earlier_output(run: Run, load: str, site: Site, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    place.mkdir()
    (place / "old.csv").write_text("a\n1\n")
    base = site.serve({})
    text = load + f"- {{stage: save_csv, args: [{place}]}}\n- {{stage: wget, args: ['{base}/none']}}\n"
    with pytest.raises(RunError, match="could not be fetched"):
        run(text + "- {stage: extract, args: [{selector: h1}]}")
    assert [path.name for path in place.iterdir()] == ["old.csv"]
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "saved"}, "nothing half-written stays"


def test_a_fetched_page_is_not_fetched_again_and_nested_values_are_json(run: Run, site: Site, tmp_path: Path) -> None:
    base = site.serve({"/": "<p class=x>é</p>"})
    extract = "{stage: extract, args: [{selector: p, as: t}, {selector: p, method: attrs}]}"
    saves = f"{{stage: save_csv, args: [{tmp_path}/saved]}}", f"{{stage: save_parquet, args: [{tmp_path}/typed]}}"
    rows = run(crawl(f"{base}/", extract, *saves, options="keepColumns: [_status]"))
    assert rows == [{"t": "é", "attrs": {"class": "x"}, "_status": 200}]
    (file,) = (tmp_path / "saved").glob("*.csv")
    assert file.read_text() == 't,attrs,_status\né,"{""class"":""x""}",200\n'
    assert pq.read_table(tmp_path / "typed").column_names == ["t", "attrs", "_status"]
    assert site.requests["/"] == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nowhere/x", "line 3: save_csv /nowhere/x overwrite: '/nowhere/x' cannot be written: it is in none of the"),
        ("{tmp}/open/../x", "cannot be written: it is in none of the folders that this service may use"),
        ("{tmp}/open/link/x", "cannot be written: it is in none of the folders that this service may use"),
        ("{tmp}/open/none/x", "cannot be written: there is no folder '.*/open/none'"),
        ("s3://bucket/x", "'s3://bucket' needs a cloud credential of the provider AWS"),
    ],
)
def test_a_service_writes_only_to_its_own_folders(run: Run, load: str, tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(tmp_path)
    source = Files((f"{tmp_path}/table.csv",))
    folders = (f"{tmp_path}/open",)
    context = RunContext(
        inputs={f"{tmp_path}/table.csv": source}, local_folders=folders, saves_folder=f"{tmp_path}/saves"
    )
    with pytest.raises(RunError, match=message):
        run(load + f"- {{stage: save_csv, args: ['{path.format(tmp=tmp_path)}']}}", context)
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "open"}


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ("- {stage: save_csv}", "3: save_csv: 'path' is missing"),
        ("- {stage: save_csv, args: [a, apend]}", "3: save_csv: unknown mode 'apend'; did you mean append?"),
        ("- {stage: save_csv, args: [a, append, 1]}", "3: save_csv: too many arguments; it takes path, mode, "
         "partitionBy, credential; a comma in one needs quotes"),
        ("- {stage: save_csv, args: [a]}\n- {stage: save_parquet, args: [a]}",
         "4: 'a' is saved already by an earlier stage"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors_with_their_line(load: str, stages: str, problem: str) -> None:
    found = find_problem(load + stages)
    assert f"{found.line}: {found.message}" == problem
