from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import Files
from pipelines.engine.record_batches import LEVEL, LINK, OPEN, ROW
from pipelines.errors import RunError
from pipelines.language.columns import INTERNAL_COLUMNS
from pipelines.stages.tables import PLACE
from tests.support.pipelines import Run

LOAD = "pipeline: [{stage: load_csv, args: [{path: '${FILE}'}]}]"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in [1].csv"  # characters that Hadoop would take for a pattern
    path.write_text("name,price\nb,2\na,\n")
    return path


def test_rows_in_the_order_of_the_file(run: Run, file: Path) -> None:
    assert run(LOAD, FILE=str(file)) == [{"name": "b", "price": "2"}, {"name": "a", "price": None}]
    assert run(LOAD, FILE=f"file://{file}") == run(LOAD, FILE=str(file))


def test_options_and_types(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;1\n'y;z';2.5\n")
    args = f'{{path: {path}, header: false, sep: ;, quote: "\'", infer_schema: TRUE}}'
    assert run(f"pipeline: [{{stage: load_csv, args: {args}}}]") == [
        {"_c0": "x", "_c1": 1.0},
        {"_c0": "y;z", "_c1": 2.5},
    ]


def test_a_pattern_reads_files_by_name(run: Run, tmp_path: Path) -> None:
    # Spark reads the largest file first
    for name, count in (("b", 9), ("a", 1), ("c %", 99)):
        (tmp_path / f"{name}.csv").write_text("name\n" + f"{name}\n" * count)
    rows = run(LOAD, FILE=str(tmp_path / "*.csv"))
    assert [row["name"] for row in rows] == ["a"] + ["b"] * 9 + ["c %"] * 99


def test_a_file_with_only_a_header_has_no_rows(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,price\n")
    assert run(LOAD, FILE=str(tmp_path / "a.csv")) == []


def test_an_empty_file_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(RunError, match=r"the file '.*/a\.csv' is empty"):
        run(LOAD, FILE=str(tmp_path / "a.csv"))


def test_a_missing_file_is_named(run: Run) -> None:
    with pytest.raises(RunError, match=r"there is no file at '/no/such\.csv'"):
        run(LOAD, FILE="/no/such.csv")


def test_a_wrong_column_is_an_error_before_any_fetch(run: Run, file: Path) -> None:
    text = LOAD.replace("]}]", "]}, {stage: wget, args: [$nam]}]")
    with pytest.raises(RunError, match=r"line 1: wget \$nam: there is no column 'nam' here; did you mean name\?"):
        run(text, FILE=str(file))
    text = LOAD.replace("]}]", "]}, {stage: wget, args: ['http://127.0.0.1/$name']}]")
    with pytest.raises(RunError, match=r"line 1: 'http://127.0.0.1/\$name' is one address for all rows"):
        run(text, FILE=str(file))


@pytest.mark.parametrize("taken", ["__link", "__Place"])
def test_a_column_with_a_reserved_name_is_an_error(run: Run, tmp_path: Path, taken: str) -> None:
    (tmp_path / "a.csv").write_text(f"name,__v,{taken}\nlamp,1,2\n")
    with pytest.raises(RunError, match=f"line 1: load_csv .* has a column '{taken}', which is reserved"):
        run(LOAD, FILE=str(tmp_path / "a.csv"))


def test_every_name_that_the_engine_keeps_to_itself_is_known() -> None:
    assert {LINK, LEVEL, OPEN, ROW, PLACE} == INTERNAL_COLUMNS


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "file:///etc/hostname", "{folder}/../secret.csv", "{folder}/link.csv"]
)
def test_other_folders_are_not_read(run: Run, tmp_path: Path, path: str) -> None:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (tmp_path / "secret.csv").write_text("a\n1\n")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    context = RunContext(local_folders=(str(folder),))
    with pytest.raises(RunError, match="in none of the folders that this service may read"):
        run(LOAD, context, FILE=path.format(folder=folder))


@pytest.mark.parametrize(
    "path",
    [
        "{folder}/../secret.*",
        "{folder}/../nothing.*",
        "{folder}/s*/../../secret.csv",
        "{folder}/s*/../../nothing.csv",
        "{folder}/s*/out/*.csv",
        "{folder}/**/secret.csv",
        "/etc/passw?",
        "/etc/nothin?",
        "/**/nothing",
        "file:///etc/shado[w]",
        "/etc/{x",
        "/" + "a" * 300,
    ],
)
def test_the_existence_of_files_in_other_folders_is_not_revealed(tmp_path: Path, path: str) -> None:
    sub = tmp_path / "allowed/sub"
    sub.mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    (sub / "secret.csv").symlink_to(tmp_path / "secret.csv")
    (sub / "out").symlink_to(tmp_path)
    path = path.replace("{folder}", str(sub.parent))
    allowed = RunContext(local_folders=(str(sub.parent),))
    if path.endswith("/out/*.csv"):  # a link that leads out is not looked behind
        with pytest.raises(RunError, match="there is no file at"):
            allowed.find_files(path)
    else:
        with pytest.raises(RunError, match="in none of the folders that this service may read"):
            allowed.find_files(path)


def test_nothing_is_looked_up_where_nothing_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("os.scandir", listed)
    for path in (f"{tmp_path}/*", "/**/x", "*"):
        with pytest.raises(RunError, match="in none of the folders"):
            RunContext(local_folders=()).find_files(path)


def test_patterns_in_an_open_folder_match_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "open[1]"
    for name in ("a.csv", "b.csv", "[c].csv", ".d.csv", "x/a.csv", "x/y/a.csv", ".z/a.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a\n1\n")
    (folder / "x/loop").symlink_to(folder)
    monkeypatch.chdir(folder)
    for context in (RunContext(), RunContext(local_folders=(str(folder),))):
        for path, expected in {
            "*.csv": ["[c].csv", "a.csv", "b.csv"],
            "[ab].csv": ["a.csv", "b.csv"],
            "[c].csv": ["[c].csv"],
            f"{folder}/[c].csv": ["[c].csv"],
            "x/*/a.csv": ["a.csv", "x/y/a.csv"],
            "**/a.csv": ["a.csv", "x/a.csv", "x/y/a.csv"],
            "**/y/*": ["x/y/a.csv"],
        }.items():
            found = [re.sub(r"\\(.)", r"\1", each) for each in context.find_files(path).paths]
            assert sorted(set(found)) == [str(folder / name) for name in expected], path


@pytest.mark.parametrize("path", ["data/**/*.csv", "link/**/*.csv", "{folder}/data/**/*.csv"])
def test_files_of_deeper_folders_are_sorted_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    names = ["a.csv", "b.csv", "sub/c.csv", "sub/deep/d.csv", "z.csv"]
    for name in names:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text("a\n1\n")
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path)
    expected = tuple(str(tmp_path / "data" / name) for name in names)
    assert RunContext().find_files(path.format(folder=tmp_path)).paths == expected


@pytest.mark.parametrize("of", ["sub", "s*", "**", "."])
@pytest.mark.parametrize("target", ["secret.csv", "secrets"])
def test_no_link_leads_spark_out_of_a_folder(tmp_path: Path, of: str, target: str) -> None:
    folder = tmp_path / "allowed"
    (folder / "sub/deep").mkdir(parents=True)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secret.csv").write_text("a\n1\n")
    (folder / "sub/a.csv").write_text("a\n1\n")
    link = folder / "sub/deep/link.csv"
    context = RunContext(local_folders=(str(folder),))
    link.symlink_to(folder / "sub")  # to an open folder, and in a circle
    assert context.find_files(f"{folder}/{of}").paths
    link.unlink()
    link.symlink_to(tmp_path / target)
    with pytest.raises(RunError, match=r"link\.csv' cannot be read: it leads out of the folders"):
        context.find_files(f"{folder}/{of}")
    assert RunContext().find_files(f"{folder}/{of}").paths  # a person's own machine


def test_links_are_refused_that_spark_follows_and_no_others(spark: SparkSession, tmp_path: Path) -> None:
    folder, outside = tmp_path / "allowed", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    names = ["a", "_a=1", "=_a", "_metadata", "_metadata_a", "_common_metadata", ".a", ".a=1", "_a", "_", "._metadata"]
    for name in names:
        (outside / f"{name}-file").write_text(f"{name}-file")
        (outside / f"{name}-folder").mkdir()
        (outside / f"{name}-folder/a").write_text(f"{name}-folder")
    links = [folder / each.name for each in outside.iterdir()]
    for link in links:
        link.symlink_to(outside / link.name)
    followed = {row.value for row in spark.read.text(str(folder), recursiveFileLookup=True).collect()}
    # Spark lists them, and reads their columns from them where they are Parquet
    followed |= {f"{name}-file" for name in names if name.startswith(("_metadata", "_common_metadata"))}
    assert len(followed) == 12
    for link in links:
        link.unlink()
    for link in links:
        link.symlink_to(outside / link.name)
        context = RunContext(local_folders=(str(folder),))
        if link.name in followed:
            with pytest.raises(RunError, match="it leads out of the folders"):
                context.find_files(str(folder))
        else:
            assert context.find_files(str(folder)).paths == (str(folder),)
        link.unlink()


def test_a_hidden_folder_is_read_when_its_path_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "allowed"
    for name in ("venv/.hidden/bin", "delta/_log/bin"):
        (folder / name).mkdir(parents=True)
        (folder / name / "python").symlink_to("/usr")
        (folder / name / "../../x.csv").write_text("a\n1\n")
    context = RunContext(local_folders=(str(folder),))
    for name in ("", "venv", "delta"):
        assert context.find_files(f"{folder}/{name}").paths == (str(folder / name),)
    (folder / "seen").symlink_to("venv/.hidden")
    for name in ("", "venv/.hidden", "delta/_log", "seen"):
        with pytest.raises(RunError, match=r"python' cannot be read: it leads out of the folders"):
            context.find_files(f"{folder}/{name}")


@pytest.mark.parametrize("target", ["/nonexistent/x", "link.csv"])
def test_a_link_that_leads_nowhere_is_skipped_as_spark_does(run: Run, tmp_path: Path, target: str) -> None:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "x.csv").write_text("a\n1\n")
    (folder / "link.csv").symlink_to(target)
    for context in (RunContext(), RunContext(local_folders=(str(tmp_path),))):
        assert run(LOAD, context, FILE=str(folder)) == [{"a": "1"}]
        assert context.find_files(f"{tmp_path}/**/x.csv").paths == (str(folder / "x.csv"),)


def test_a_folder_with_too_many_files_is_not_walked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"{number}.csv").touch()
    monkeypatch.setattr("pipelines.contract.context._MOST_ENTRIES", 3)
    with pytest.raises(RunError, match="contains more than 3 files"):
        RunContext(local_folders=(str(tmp_path),)).find_files(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/tmp/" + "a" * 300, "File name too long"), ("/tmp/a\0", "a file cannot"), ("/tmp/\ud800", "a file cannot")],
)
def test_an_impossible_path_is_an_error(path: str, reason: str) -> None:
    with pytest.raises(RunError, match=f"cannot be read: {reason}"):
        RunContext().find_files(path)
    with pytest.raises(RunError, match=f"cannot be written: {reason}"):
        RunContext().resolve_local_target(f"{path}/a")


@pytest.mark.parametrize("path", ["spindle://project/none", "hdfs://host/a.csv"])
def test_a_path_that_is_neither_local_nor_an_input_is_refused(run: Run, path: str) -> None:
    with pytest.raises(RunError, match="neither a dataset of this project nor a local file"):
        run(LOAD, FILE=path)


def test_an_input_of_the_service_is_read_from_any_folder(run: Run, file: Path) -> None:
    context = RunContext(inputs={"spindle://shop/in": Files((str(file).replace("[", "\\["),), "csv")}, local_folders=())
    assert len(run(LOAD, context, FILE="spindle://shop/in")) == 2


@pytest.mark.long
def test_columns_with_dots_and_quotes_pass_through_every_kind_of_step(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("unit.price,a `b`\n€ 1.50,x\n€ 2.50,y\n€ 2.50,y\n")
    text = f"""
pipeline:
  - {{stage: load_csv, args: [{tmp_path}/a.csv]}}
  - {{stage: dedup, args: [unit.price]}}
  - {{stage: priceNormalize, args: [$unit.price]}}
  - {{stage: filter, args: ["`unit.price_amount` > 2"]}}
  - {{stage: sentiment, args: ["a `b`"]}}
"""
    assert run(text) == [
        {
            "unit.price": "€ 2.50",
            "a `b`": "y",
            "unit.price_amount": 2.5,
            "unit.price_currency": "EUR",
            "sentiment_score": 0.0,
            "sentiment_label": "neutral",
        }
    ]
