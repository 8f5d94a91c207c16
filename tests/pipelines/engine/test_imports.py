"""What passes import."""

from __future__ import annotations

import subprocess
import sys


def test_passes_load_no_spark() -> None:
    script = (
        "import sys, pipelines.engine.worker, pipelines.local.runner, pipelines.reference\n"
        "print([name for name in ('pyspark', 'py4j', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_libraries_of_texts_and_documents_are_imported_when_a_page_needs_them() -> None:
    script = (
        "import sys; from pipelines.registry import import_engine; import_engine()\n"
        "names = ('trafilatura', 'html_to_markdown', 'semantic_text_splitter', 'pypdfium2', 'pdfplumber', 'docx')\n"
        "print([name for name in (*names, 'pptx', 'python_calamine', 'striprtf', 'lxml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_engine_is_imported_without_arrays() -> None:
    """An isolated process may not start the threads that numpy starts when it is imported."""
    script = (
        "import sys; from pipelines.registry import import_engine; import_engine()\n"
        "print([name for name in ('pyspark', 'pyarrow', 'numpy', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_arrays_load_no_pandas_until_somebody_wants_one_of_its_frames() -> None:
    script = (
        "import sys, pyarrow as pa\n"
        "from pipelines.local.runner import skip_pandas\n"
        "skip_pandas()\n"
        "rows = pa.table({'a': pa.array([1, 2])})\n"
        "print('pandas' in sys.modules, len(rows.to_pandas()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False 2"
