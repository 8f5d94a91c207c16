"""A process that reads files: one request on its input, one answer on its output. messages.py has their form."""

from __future__ import annotations

import gc
import os
import signal
import sys

import duckdb

from core.data.files.export import describe, export
from core.data.files.messages import (
    ConversionRequest,
    ConvertedFile,
    DescribedFiles,
    DescribeRequest,
    ExportRequest,
    RejectedFile,
    read_request,
    write_answer,
)
from core.data.files.upload_conversion import convert_file
from core.data.processes import limit_resources

FAILED = 3


def main() -> None:
    request, seconds = read_request(sys.stdin.buffer.readline())
    limit_resources()
    gc.disable()  # rows have no cycles, and to look for some takes a third of the time
    signal.setitimer(signal.ITIMER_REAL, seconds)  # in case the server that would end it has died
    if isinstance(request, ExportRequest):
        _export(request)
        return
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not reach the pipe
    answers.write(write_answer(_answer(request)))
    answers.close()


def _answer(request: ConversionRequest | DescribeRequest) -> ConvertedFile | DescribedFiles | RejectedFile:
    try:
        return convert_file(request) if isinstance(request, ConversionRequest) else describe(request)
    except RejectedFile as error:
        return error
    except (MemoryError, duckdb.OutOfMemoryException):
        return RejectedFile("invalid-file", "The file has rows that need too much memory.")
    except Exception as error:  # the caller can mend the file, and gets the reason
        kind, (reason, *_) = type(error).__name__, str(error).splitlines() or [""]
        return RejectedFile("invalid-file", f"The file cannot be read: {kind}: {reason[:200]}")


def _export(request: ExportRequest) -> None:
    try:
        export(request, "/dev/stdout")
    except (duckdb.Error, MemoryError):
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
