from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import RunError
from pipelines.columns import INTERNAL_COLUMNS
from pipelines.spark.context import Files, RunContext
from pipelines.spark.schema import LEVEL, LINK, OPEN, ROW
from pipelines.stages.tables import PLACE
from tests.pipelines.conftest import Run

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


def test_a_header_alone_is_no_rows(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,price\n")
    assert run(LOAD, FILE=str(tmp_path / "a.csv")) == []


def test_an_empty_file_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(RunError, match=r"the file '.*/a\.csv' is empty"):
        run(LOAD, FILE=str(tmp_path / "a.csv"))


def test_a_missing_file_is_named(run: Run) -> None:
    with pytest.raises(RunError, match=r"there is no file at '/no/such\.csv'"):
        run(LOAD, FILE="/no/such.csv")


def test_a_wrong_column_is_told_before_anything_is_fetched(run: Run, file: Path) -> None:
    text = LOAD.replace("]}]", "]}, {stage: wget, args: [$nam]}]")
    with pytest.raises(RunError, match=r"line 1: wget \$nam: there is no column 'nam' here; did you mean name\?"):
        run(text, FILE=str(file))
    text = LOAD.replace("]}]", "]}, {stage: wget, args: ['http://127.0.0.1/$name']}]")
    with pytest.raises(RunError, match=r"line 1: 'http://127.0.0.1/\$name' is one address for all rows, with \$name"):
        run(text, FILE=str(file))


@pytest.mark.parametrize("taken", ["__link", "__Place"])
def test_a_column_that_is_called_as_one_of_the_engines_own_is_told(run: Run, tmp_path: Path, taken: str) -> None:
    (tmp_path / "a.csv").write_text(f"name,__v,{taken}\nlamp,1,2\n")
    with pytest.raises(RunError, match=f"line 1: load_csv .* has a column '{taken}', as the engine calls one"):
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


@pytest.mark.parametrize("path", ["spindle://project/none", "s3://bucket/a.csv", "hdfs://host/a.csv", "http://a/b.csv"])
def test_what_is_neither_local_nor_an_input_is_refused(run: Run, path: str) -> None:
    with pytest.raises(RunError, match="neither a dataset of this project nor a local file"):
        run(LOAD, FILE=path)


def test_an_input_of_the_service_is_read_wherever_it_lies(run: Run, file: Path) -> None:
    context = RunContext(inputs={"spindle://shop/in": Files((str(file).replace("[", "\\["),), "csv")}, local_folders=())
    assert len(run(LOAD, context, FILE="spindle://shop/in")) == 2


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
