"""The output of a pipeline on a machine without a service: a folder or file at its path, with both engines."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipelines.errors import RunError
from tests.support.libraries import needs_libraries
from tests.support.pipelines import Run, load_table

ENGINES = pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.long)])


def write(folder: Path, output: str, engine: str) -> str:
    return load_table(folder, "n\n2\n1\n", f"output: {output}\nspindle: {{engine: {engine}}}\n")


@ENGINES
def test_rows_of_parquet_are_one_file_or_a_folder(run: Run, tmp_path: Path, engine: str) -> None:
    file, folder = tmp_path / "rows.parquet", tmp_path / "rows"
    for _ in range(2):
        assert run(write(tmp_path, f"{{path: {file}}}", engine)) == [{"n": "2"}, {"n": "1"}]
        assert pq.read_table(file).to_pylist() == [{"n": "2"}, {"n": "1"}]
        run(write(tmp_path, f"{{path: {folder}, mode: append}}", engine))
    assert file.is_file()
    assert pq.read_table(folder).num_rows == 4
    run(write(tmp_path, f"{{path: {folder}, mode: ignore}}", engine))
    assert pq.read_table(folder).num_rows == 4
    with pytest.raises(RunError, match="has rows already"):
        run(write(tmp_path, f"{{path: {folder}, mode: error}}", engine))
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "rows", "rows.parquet"}


def test_rows_of_other_formats_are_written_as_save_stages_write_them(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for _ in range(2):
        run(load_table(tmp_path, "n\n2\n1\n", f"output: {{path: {file}, format: csv, mode: append}}\n"))
    assert file.read_text() == "n\n2\n1\n2\n1\n"
    run(
        load_table(tmp_path, "n,m\n2,a\n1,b\n", f"output: {{path: {tmp_path}/parts, format: json, partitionBy: [n]}}\n")
    )
    assert {path.name for path in (tmp_path / "parts").glob("n=*")} == {"n=1", "n=2"}


@needs_libraries
@ENGINES
def test_a_table_has_no_former_rows_of_what_it_merges_within(run: Run, tmp_path: Path, engine: str) -> None:
    output = f"{{path: {tmp_path}/chunks, format: delta, mode: merge, keys: [doc, n], within: doc}}"
    for rows in ("a,1\na,2\nb,1\n", "a,1\n"):
        run(load_table(tmp_path, f"doc,n\n{rows}", f"output: {output}\nspindle: {{engine: {engine}}}\n"))
    stored = DeltaTable(f"{tmp_path}/chunks").to_pyarrow_table().to_pylist()
    assert sorted((row["doc"], row["n"]) for row in stored) == [("a", "1"), ("b", "1")]
