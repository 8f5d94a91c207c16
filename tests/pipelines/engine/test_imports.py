"""What passes import."""

from __future__ import annotations

from tests.support.imports import list_imported

ENGINE = "from pipelines.registry import import_engine; import_engine()"
SPARK = ("pyspark", "py4j", "pandas")
# an isolated process may not start the threads that numpy starts when it is imported
ARRAYS = ("pyarrow", "numpy")
READERS = ("trafilatura", "html_to_markdown", "semantic_text_splitter", "lxml")  # of texts, as a page needs them
DOCUMENTS = ("pypdfium2", "pdfplumber", "docx", "pptx", "python_calamine", "striprtf")


def test_passes_load_no_spark() -> None:
    assert list_imported("import pipelines.engine.worker, pipelines.local.runner, pipelines.reference", SPARK) == []


def test_the_engine_is_imported_without_arrays_and_readers() -> None:
    assert list_imported(ENGINE, (*SPARK, *ARRAYS, *READERS, *DOCUMENTS)) == []


def test_arrays_load_no_pandas_until_somebody_wants_one_of_its_frames() -> None:
    rows = (
        "import pyarrow as pa; from pipelines.local.runner import skip_pandas; skip_pandas();"
        " rows = pa.table({'a': pa.array([1, 2])})"
    )
    assert list_imported(rows, ["pandas"]) == []
    assert list_imported(f"{rows}; assert len(rows.to_pandas()) == 2", ["pandas"]) == ["pandas"]
