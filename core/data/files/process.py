"""The server's side of the processes that read files."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from core.data.files.messages import (
    ConversionRequest,
    ConvertedFile,
    DescribedFiles,
    DescribeRequest,
    ExportRequest,
    RejectedFile,
    Request,
    read_answer,
    write_request,
)
from core.data.processes import start_process
from core.errors import BadInput, TooLarge, Unavailable
from core.infra.settings import Settings

WORKER = "core.data.files.worker"
GRACE_SECONDS = 10
CHUNK_BYTES = 2**18
MAX_SECONDS = 6 * 3600
START_SECONDS = 60  # within which the first rows of a file come, unless its storage hangs


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

    def convert(self, request: ConversionRequest) -> ConvertedFile:
        """Convert an uploaded file in a scratch folder; raise BadInput or TooLarge for a file that cannot be taken."""
        answer = self._ask(request)
        assert isinstance(answer, ConvertedFile)  # noqa: S101 - it answers a ConversionRequest
        return answer

    def describe(self, files: Sequence[str], format: str) -> tuple[Sequence[dict[str, str]], int]:
        """Return columns and number of rows of files of one format; raise BadInput when they are not of it."""
        with self.open_scratch() as scratch:
            answer = self._ask(DescribeRequest(str(scratch), files, format))
        assert isinstance(answer, DescribedFiles)  # noqa: S101 - it answers a DescribeRequest
        return answer.columns, answer.row_count

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
            process = self._start(ExportRequest(str(scratch), files, source_format, format, columns, partition_by))
            timers = [threading.Timer(seconds, process.kill) for seconds in (START_SECONDS, self._seconds)]
            for timer in timers:
                timer.start()
            try:
                assert process.stdout is not None  # noqa: S101 - it was started with a pipe
                while chunk := process.stdout.read(CHUNK_BYTES):
                    timers[0].cancel()
                    yield chunk
                if process.wait():
                    raise Unavailable("The files of this dataset cannot be read.", code="missing-files")
            finally:
                for timer in timers:
                    timer.cancel()
                _end(process)

    def _ask(self, request: ConversionRequest | DescribeRequest) -> ConvertedFile | DescribedFiles:
        process = self._start(request)
        try:
            answer, _ = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            sentence = f"The file took longer than {self._seconds:g} seconds to read."
            raise BadInput(sentence, code="invalid-file", path="file") from None
        finally:
            _end(process)
        if process.returncode or not answer:
            sentence = f"The file cannot be read: {_describe_end(process.returncode)}."
            raise BadInput(sentence, code="invalid-file", path="file")
        try:
            return read_answer(answer)
        except RejectedFile as error:
            kind = TooLarge if error.code == "too-large" else BadInput
            raise kind(str(error), code=error.code, path="file") from None

    def _start(self, request: Request) -> subprocess.Popen[bytes]:
        process = start_process(WORKER, request.folder, TMPDIR=request.folder, OMP_NUM_THREADS="2")
        assert process.stdin is not None  # noqa: S101 - it was started with a pipe
        with suppress(BrokenPipeError):
            process.stdin.write(write_request(request, self._seconds + GRACE_SECONDS))
            process.stdin.close()
        process.stdin = None
        return process


def _describe_end(code: int) -> str:
    """Return how a process ended that gave no answer."""
    if code >= 0:
        return f"the process that reads it ended without an answer (exit code {code})"
    name = signal.Signals(-code).name
    hint = ", as the system ends processes when memory runs out" if -code == signal.SIGKILL else ""
    return f"the process that reads it was ended by {name}{hint}"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def open_file_reader(settings: Settings) -> FileReader:
    """Return the reader of this instance; a download ends before the files of a removed version are deleted."""
    seconds = min(MAX_SECONDS, settings.files.removed_files_hours * 3600 / 2)
    return FileReader(settings.data.resolve() / "uploads", seconds)
