"""A query process: reads requests as JSON lines and answers with a JSON line, followed by the rows as JSON.

request   {"sql", "views": [{"name", "files", "columns"}], "explain", "exactNumbers", "maxBytes", "seconds"}
answer    {"columns": [[name, type], ...], "rows": count, "size": bytes of the JSON array that follows}
      or  {"error": "refused" | "too large" | "memory" | "failed", "message": sentence}
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import duckdb

from core.sql.column_names import make_unique, number_unnamed
from core.sql.embedded.lockdown import Refused, View, check_statement, connect
from core.sql.embedded.values import convert, convert_exactly

DUCKDB_MEMORY = "1GB"
ADDRESS_SPACE = 6 * 2**30  # DuckDB's threads and allocator reserve far more than they use
FILE_SIZE = 4 * 2**30
CHUNK_ROWS = 500
MAX_MESSAGE = 1000  # messages may quote values of any size
SAFE_ERRORS = (  # their messages concern the query's text and values; those of others may name files
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.DataError,
    duckdb.InvalidInputException,
    duckdb.InvalidTypeException,
    duckdb.NotImplementedException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.TypeMismatchException,
)


class AnswerTooLarge(Exception):
    pass


def main() -> None:
    _limit_resources()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not reach the pipe
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _die_after(request["seconds"])
        _answer(request, answers)
        _die_after(0)
    shutil.rmtree(os.getcwd(), ignore_errors=True)  # the server does so too, unless it was killed


def _limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def _die_after(seconds: float) -> None:
    """Let the kernel end this process after a time, in case the server that would do so has died. 0 cancels."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(request: dict[str, Any], answers: BinaryIO) -> None:
    try:
        header, body = _run(request)
    except Refused as error:
        header, body = {"error": "refused", "message": str(error)}, b""
    except AnswerTooLarge:
        header, body = {"error": "too large", "message": ""}, b""
    except (MemoryError, duckdb.OutOfMemoryException):
        header, body = {"error": "memory", "message": ""}, b""
    except duckdb.Error as error:
        header, body = {"error": "failed", "message": _describe_error(error, request)}, b""
    answers.write(json.dumps(header).encode() + b"\n" + body)
    answers.flush()


def _run(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    views = [View(**view) for view in request["views"]]
    check_statement(request["sql"], views)
    with connect(views, DUCKDB_MEMORY, os.getcwd()) as connection:
        prefix = "EXPLAIN " if request["explain"] else ""
        connection.execute(prefix + request["sql"])
        columns = [(name, str(type)) for name, type, *_ in connection.description or ()]
        converter = convert_exactly if request["exactNumbers"] else convert
        names = make_unique(number_unnamed([name for name, _ in columns]))
        rows = ([converter(value) for value in row] for row in _fetch_rows(connection))
        count, body = _encode(names, rows, request["maxBytes"])
    header = [[name, type] for name, (_, type) in zip(names, columns, strict=True)]
    return {"columns": header, "rows": count, "size": len(body)}, body


def _fetch_rows(connection: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while chunk := connection.fetchmany(CHUNK_ROWS):
        yield from chunk


def _encode(names: Sequence[str], rows: Iterator[Sequence[Any]], max_bytes: int) -> tuple[int, bytes]:
    parts: list[bytes] = []
    size = 2
    for row in rows:
        part = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, separators=(",", ":")).encode()
        size += len(part) + 1
        if size > max_bytes:
            raise AnswerTooLarge
        parts.append(part)
    return len(parts), b"[" + b",".join(parts) + b"]"


def _describe_error(error: duckdb.Error, request: dict[str, Any]) -> str:
    """Return DuckDB's message without its quote of the rewritten SQL; a general one where it could name a file."""
    text = str(error).split("\n\nLINE ")[0].partition(": ")[2]
    folders = {os.path.dirname(file) for view in request["views"] for file in view["files"]}
    if not isinstance(error, SAFE_ERRORS) or any(folder in text for folder in folders):
        return "The query failed while it read the table."
    sentence = " ".join(text.split()).rstrip(".")
    return (sentence if len(sentence) <= MAX_MESSAGE else f"{sentence[:MAX_MESSAGE]}…") + "."


if __name__ == "__main__":
    main()
