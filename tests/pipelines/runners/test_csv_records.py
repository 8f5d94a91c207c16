"""Rows of CSV files that Spark would cut or join are errors with their line on both runners, and in uploads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.data.files.messages import ConversionRequest, RejectedFile
from core.data.files.upload_conversion import convert_file
from pipelines.errors import RunError
from tests.support.pipelines import Run
from tests.support.runners import Runners

FAULTY = {
    "an extra value": ("a,b\n1,2\n\n3,4,5\n6,7\n", 4, "has 3 values for 2 columns"),
    "an open quote": ('a,b\r\n1,2\r\n3,"x\r\n4,5\r\n', 3, "has a quote that is not closed"),
    "an open quote behind a closed one": ('a,b\n"1,1","2""\n3,4\n', 2, "has a quote that is not closed"),
}
LOAD = "pipeline: [{{stage: load_csv, args: [{{path: '{path}'{more}}}]}}]"


@pytest.mark.parametrize("case", FAULTY)
def test_a_faulty_row_is_refused_with_its_line(runners: Runners, tmp_path: Path, case: str) -> None:
    content, line, fault = FAULTY[case]
    path = tmp_path / "rows.csv"
    path.write_bytes(content.encode())
    plan = runners.plan(LOAD.format(path=path, more=""))
    for failure in (runners.run_locally(plan).failure, runners.run_on_spark(plan).failure):
        assert failure is not None
        assert f"the row in line {line} of '{path}' {fault}" in failure[0]
    with pytest.raises(RejectedFile, match=re.escape(f"The row in line {line} {fault}.")):
        convert_file(ConversionRequest(str(path), str(tmp_path), 2**30))


def test_lines_are_those_of_the_file_in_all_its_parts(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = ["a,b", *("1,2" for _ in range(20)), '3,"x', *("1,2" for _ in range(20)), "1,2,3"]
    path.write_text("\n".join(rows))
    (tmp_path / "other.csv").write_text("a,b\n" + "1,2\n" * 100)
    with pytest.raises(RunError, match=f"line 22 of '{path}' has a quote"):
        run(LOAD.format(path=f"{tmp_path}/*.csv", more=", inferSchema: true"))
    path.write_text("\n".join(rows).replace('"x', '"x\n2"'))
    with pytest.raises(RunError, match=f"line 44 of '{path}' has 3 values"):
        run(LOAD.format(path=f"{tmp_path}/*.csv", more=", multiLine: true"))


@pytest.mark.parametrize(
    ("more", "rows"),
    [
        (", mode: PERMISSIVE", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
        (", mode: DROPMALFORMED", [{"a": "3", "b": "4"}]),
        (", quote: ''", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
    ],
)
def test_a_mode_reads_or_leaves_out_faulty_rows(
    run: Run, tmp_path: Path, more: str, rows: list[dict[str, str]]
) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2,9\n3,4\n")
    assert run(LOAD.format(path=f"{tmp_path}/rows.csv", more=more)) == rows


def test_rows_with_fewer_values_and_quotes_within_values_are_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a,b\n1\n2,5" pipe,,\n"x""y",3\n')
    assert run(LOAD.format(path=f"{tmp_path}/rows.csv", more="")) == [
        {"a": "1", "b": None},
        {"a": "2", "b": '5" pipe'},
        {"a": 'x"y', "b": "3"},
    ]
