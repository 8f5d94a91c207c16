"""A process that reads a file and ends otherwise than with an answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from core.data.files import process
from core.data.files.messages import ConversionRequest
from core.data.files.process import FileReader
from core.errors import BadInput


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (f"os.kill(os.getpid(), {signal.SIGSEGV.value})", "ended by SIGSEGV"),
        (f"os.kill(os.getpid(), {signal.SIGKILL.value})", "ended by SIGKILL, as the system ends processes when memory"),
        ("sys.exit(3)", "ended without an answer (exit code 3)"),
    ],
)
def test_an_end_is_called_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, sentence: str) -> None:
    (tmp_path / "ends.py").write_text(f"import os, sys\n{end}\n")
    start = process.start_process
    monkeypatch.setattr(process, "WORKER", "ends")

    def start_here(module: str, folder: str, **environment: str) -> Any:
        return start(module, folder, **environment, PYTHONPATH=os.pathsep.join([str(tmp_path)]))

    monkeypatch.setattr(process, "start_process", start_here)
    with pytest.raises(BadInput) as refused:
        FileReader(tmp_path, 60).convert(ConversionRequest(str(tmp_path / "ends.py"), str(tmp_path), 2**30))
    assert sentence in str(refused.value)
    assert "needs too much memory" not in str(refused.value)
