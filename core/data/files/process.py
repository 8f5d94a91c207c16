"""The server's side of the processes that read files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import core
from core.errors import BadInput, TooLarge, Unavailable
from core.infra.settings import Settings

GRACE_SECONDS = 10
CHUNK_BYTES = 2**18
MAX_SECONDS = 6 * 3600


@dataclass(frozen=True, slots=True)
class TakenFile:
    """The rows of an upload as a Parquet file on this machine, with the detected format."""

    path: Path
    columns: Sequence[dict[str, str]]
    row_count: int
    size_bytes: int
    preview: Sequence[dict[str, Any]]
    detected: Mapping[str, Any]


class FileReader:
    """Starts one process per file; scratch files are in `folder`."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds

    @contextmanager
    def open_scratch(self) -> Generator[Path]:
        """Give a folder for an upload, and delete it at the end."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as scratch:
            yield Path(scratch)

    def take(self, source: Path, options: Mapping[str, Any], max_bytes: int) -> TakenFile:
        """Convert an uploaded file in a scratch folder; raise BadInput or TooLarge for a file that cannot be taken."""
        request = {"do": "take", "source": str(source), "folder": str(source.parent), "maxBytes": max_bytes, **options}
        answer = self._ask(request, source.parent)
        return TakenFile(
            source.parent / "rows.parquet",
            answer["columns"],
            answer["rows"],
            answer["bytes"],
            answer["preview"],
            answer["detected"],
        )

    def describe(self, files: Sequence[str], format: str) -> tuple[list[dict[str, str]], int]:
        """Return columns and number of rows of files of one format; raise BadInput when they are not of it."""
        with self.open_scratch() as scratch:
            answer = self._ask({"do": "describe", "files": files, "format": format, "folder": str(scratch)}, scratch)
        return answer["columns"], answer["rows"]

    def export(
        self,
        files: Sequence[str],
        source_format: str,
        format: str,
        columns: Sequence[tuple[str, str]],
        partition_by: Sequence[str] = (),
    ) -> Generator[bytes]:
        """Yield the rows of files in another format; without files, a file with these columns and no rows.

        The values of the columns `partition_by` are in the names of folders.

        Raises Unavailable when the files cannot be read, at any chunk.
        """
        with self.open_scratch() as scratch:
            request: dict[str, Any] = {"do": "export", "files": files, "sourceFormat": source_format, "format": format}
            request |= {"columns": columns, "partitionBy": partition_by}
            process = self._start(request | {"folder": str(scratch)}, scratch)
            timer = threading.Timer(self._seconds, process.kill)
            timer.start()
            try:
                assert process.stdout is not None  # noqa: S101 - it was started with a pipe
                while chunk := process.stdout.read(CHUNK_BYTES):
                    yield chunk
                if process.wait():
                    raise Unavailable("The files of this dataset cannot be read.", code="missing-files")
            finally:
                timer.cancel()
                _end(process)

    def _ask(self, request: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
        process = self._start(request, scratch)
        try:
            answer, _ = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            sentence = f"The file took longer than {self._seconds:g} seconds to read."
            raise BadInput(sentence, code="invalid-file", path="file") from None
        finally:
            _end(process)
        if process.returncode or not answer:
            raise BadInput("The file cannot be read: it needs too much memory.", code="invalid-file", path="file")
        found = json.loads(answer)
        if "error" in found:
            raise (TooLarge if found["tooLarge"] else BadInput)(found["message"], code=found["error"], path="file")
        return found

    def _start(self, request: Mapping[str, Any], scratch: Path) -> subprocess.Popen[bytes]:
        environment = {  # no secret of the service
            "PYTHONPATH": str(Path(core.__file__).parent.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": "2",
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "core.data.files.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            env=environment,
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - it was started with a pipe
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps({**request, "seconds": self._seconds + GRACE_SECONDS}).encode() + b"\n")
            process.stdin.close()
        process.stdin = None
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def open_file_reader(settings: Settings) -> FileReader:
    """Return the reader of this instance; a download ends before the files of a removed version are deleted."""
    seconds = min(MAX_SECONDS, settings.removed_files_hours * 3600 / 2)
    return FileReader(settings.data.resolve() / "uploads", seconds)
