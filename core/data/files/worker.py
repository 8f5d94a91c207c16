"""A process that reads files: one request as a JSON line on its input, one answer as a JSON line, or the rows.

take      {"do", "source", "folder", "maxBytes", "format", "delimiter", "header", "encoding", "seconds"}
describe  {"do", "files", "format", "folder", "seconds"}
export    {"do", "files", "sourceFormat", "format", "columns", "partitionBy", "folder", "seconds"}: answers the file
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import duckdb

from core.data.files.errors import RejectedFile, TooLargeFile
from core.data.files.export import describe, export, read_files
from core.data.files.intake import take

ADDRESS_SPACE = 6 * 2**30
FAILED = 3


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    _limit_resources(request)
    if request["do"] == "export":
        _export(request)
        return
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not reach the pipe
    try:
        answer = take(request) if request["do"] == "take" else _describe(request)
    except RejectedFile as error:
        answer = {"error": error.code, "message": str(error), "tooLarge": isinstance(error, TooLargeFile)}
    except (MemoryError, duckdb.OutOfMemoryException):
        answer = {"error": "invalid-file", "message": "The file has rows that need too much memory.", "tooLarge": False}
    answers.write(json.dumps(answer).encode())
    answers.close()


def _limit_resources(request: dict[str, Any]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])  # in case the server that would end it has died


def _describe(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return describe(request["files"], request["format"], Path(request["folder"]))
    except duckdb.Error as error:
        raise RejectedFile("invalid-file", f"The files are not {request['format']}.") from error


def _export(request: dict[str, Any]) -> None:
    try:
        source = read_files(request["files"], request["sourceFormat"], request["columns"], request["partitionBy"])
        export(source, request["format"], "/dev/stdout", Path(request["folder"]), request["files"])
    except (duckdb.Error, MemoryError):
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
