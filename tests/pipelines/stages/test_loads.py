from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.engine.json_rows import InvalidRow, read_object
from pipelines.errors import RunError
from pipelines.stages.load import LoadJson
from tests.support.json_types import JSON_TYPES
from tests.support.pipelines import Run


def test_json_lines_and_whole_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lines.json").write_text('{"a": 1, "b": {"c": "x"}}\n{"a": 2}\n')
    (tmp_path / "array.json").write_text('[\n{"a": 3}\n]')
    assert run(f"pipeline: [{{stage: load_json, args: [{tmp_path}/lines.json]}}]") == [
        {"a": 1, "b": {"c": "x"}},
        {"a": 2, "b": None},
    ]
    args = f"[{{path: {tmp_path}/array.json, multiLine: 'true'}}]"
    assert run(f"pipeline: [{{stage: load_json, args: {args}}}]") == [{"a": 3}]


def test_json_without_objects_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(RunError, match=r"the file '.*/empty\.json' contains no JSON objects"):
        run(f"pipeline: [{{stage: loadJson, args: [{tmp_path}/empty.json]}}]")


def test_parquet_folder(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [3], "b": ["x"]}), tmp_path / "2.parquet")
    text = f"pipeline: [{{stage: load_parquet, args: {{path: {tmp_path}, merge_schema: true}}}}]"
    assert run(text) == [{"a": 1, "b": None}, {"a": 2, "b": None}, {"a": 3, "b": "x"}]


def test_json_has_the_types_of_uploads(spark: SparkSession, tmp_path: Path) -> None:
    for number, (texts, _, _) in enumerate(JSON_TYPES.values()):
        (tmp_path / f"{number}.json").write_text("".join(f'{{"a": {text}}}\n' for text in texts))
    found = {case: load_json(spark, tmp_path / f"{number}.json") for number, case in enumerate(JSON_TYPES)}
    assert found == {case: (type_, values) for case, (_, type_, values) in JSON_TYPES.items()}


def load_json(spark: SparkSession, path: Path) -> tuple[str, list[Any]]:
    """Return type and values of the column `a` of a file."""
    rows = LoadJson(path=str(path)).load(spark, RunContext()).orderBy("_ordinal").select("a")
    (type_,) = (each.dataType.simpleString() for each in rows.schema)
    return type_, pa.Table.from_batches(rows.toArrow().to_batches())["a"].to_pylist()


@pytest.mark.parametrize(
    ("text", "options", "place"),
    [
        ('{"a": 1}{"a": 2}\n', "", "a line of its own"),
        ('{"a": 1} and more\n', ", mode: PERMISSIVE", "a line of its own"),
        ('{"a": 1}\n{"a": 2}\n', ", multiLine: true", "one list"),
        ('{"a": 1} {"a": 2}\n', ", dateFormat: yyyy", "a line of its own"),
        ("{'a': 'x}'} {'a': 'y'}\n", "", "a line of its own"),
        ("{a: 1} /* b */ {a: 2}\n", ", allowUnquotedFieldNames: true, allowComments: true", "a line of its own"),
    ],
)
def test_text_after_an_object_of_json_is_not_lost(
    run: Run, tmp_path: Path, text: str, options: str, place: str
) -> None:
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(RunError, match=rf"rows\.json' has text after an object of JSON; put each object in {place}"):
        run(f"pipeline: [{{stage: load_json, args: [{{path: {tmp_path}/rows.json{options}}}]}}]")


def test_brackets_quotes_and_comments_of_lenient_json_are_no_text_after_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("{'a': '}\\'\"', b: [{}]}  // }\n/* { */ {'a': 'x', b: []}\n")
    options = "allowUnquotedFieldNames: true, allowComments: true"
    rows = run(f"pipeline: [{{stage: load_json, args: [{{path: {tmp_path}/rows.json, {options}}}]}}]")
    assert [row["a"] for row in rows] == ["}'\"", "x"]


def test_text_that_is_no_json_is_an_error_unless_a_mode_says_its_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"a": 1}\n{"a":\n')
    stage = f"pipeline: [{{stage: load_json, args: [{{path: {tmp_path}/rows.json%s}}]}}]"
    with pytest.raises(RunError, match=r"rows\.json' has text that is no JSON object; .* mode: PERMISSIVE"):
        run(stage % "")
    assert run(stage % ", mode: DROPMALFORMED") == [{"a": 1}]
    kept = [{"_corrupt_record": None, "a": 1}, {"_corrupt_record": '{"a":', "a": None}]
    assert run(stage % ", mode: PERMISSIVE") == kept
    lines = ["[main] INFO started", "2026-01-01 10:00 {x} at y", "200 OK", "at f(x) {y} z"]
    (tmp_path / "rows.json").write_text("\n".join(['{"a": 1}', *lines, '{"a": 2}', ""]))
    assert run(stage % ", mode: DROPMALFORMED") == [{"a": 1}, {"a": 2}]
    assert [row["_corrupt_record"] for row in run(stage % ", mode: PERMISSIVE")] == [None, *lines, None]


def test_columns_of_json_that_differ_in_case_are_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n{"ID": 2}\n')
    with pytest.raises(RunError, match="differ only in case"):
        run(f"pipeline: [{{stage: load_json, args: [{tmp_path}/a.json]}}]")


@pytest.mark.parametrize("line", ['{"a": "\\ud800"}', '{"\\udfff": 1}', '{"a": [{"b": ["\\ud83d"]}]}'])
def test_half_a_character_is_no_row_of_json(line: str) -> None:
    with pytest.raises(InvalidRow, match="half a character"):
        read_object(line)
    assert read_object('{"a": "\\ud83d\\ude00", "b": NaN}') == {"a": "😀", "b": "NaN"}


def test_json_that_only_spark_reads_has_the_types_of_spark(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{'a': '10-11-12'}\n")
    assert run(f"pipeline: [{{stage: load_json, args: [{tmp_path}/a.json]}}]") == [{"a": "10-11-12"}]
