"""A query process: reads requests as JSON lines and answers with a JSON line, followed by the rows as JSON.

request   {"sql", "views": [{"name", "files", "columns"}], "explain", "exactNumbers", "maxBytes", "seconds"}
          with "store": path of the Parquet file that gets the rows, in place of an answer with rows
answer    {"columns": [[name, type], ...], "rows": count, "size": bytes of the JSON array that follows}
          before it, of stored rows, {"progress": share from 0 to 1} any number of times
      or  {"error": "refused" | "too large" | "memory" | "failed", "message": sentence, "code": of a failure}
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import duckdb

from core.data.duckdb.lockdown import Refused, View, check_statement, lock_down, open_database
from core.data.duckdb.macros import find_macros
from core.data.duckdb.values import convert, convert_exactly, convert_real
from core.data.sql.column_names import make_unique, number_unnamed
from core.data.sql.embedded.errors import UNSUPPORTED, find_code
from core.data.sql.embedded.stored_rows import PLAN_COLUMN, quote_lines, read_plan, write_parquet

DUCKDB_MEMORY = "1GB"
ADDRESS_SPACE = 6 * 2**30  # DuckDB's threads and allocator reserve far more than they use
FILE_SIZE = 4 * 2**30
CHUNK_ROWS = 500
PROGRESS_SECONDS = 0.5
NICENESS = 10  # of stored queries, for which nobody waits
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


class SpareDatabases:
    """Keeps an empty database ready, so that no statement waits until one is open, and none shares one."""

    def __init__(self) -> None:
        self._spare: duckdb.DuckDBPyConnection | None = None
        self._used: duckdb.DuckDBPyConnection | None = None

    def take(self) -> duckdb.DuckDBPyConnection:
        """Return a database for one statement, which `refill` closes."""
        self._used, self._spare = self._spare or open_database(DUCKDB_MEMORY, os.getcwd()), None
        return self._used

    def refill(self) -> None:
        """Close the database of the statement before, and open the next."""
        if self._used is not None:
            self._used.close()
            self._used = None
        if self._spare is None:
            self._spare = open_database(DUCKDB_MEMORY, os.getcwd())


_SPARES = SpareDatabases()


def main() -> None:
    _limit_resources()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not reach the pipe
    _SPARES.refill()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _die_after(request["seconds"])
        _answer(request, answers)
        _SPARES.refill()
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
        header, body = (_store(request, answers), b"") if "store" in request else _run(request)
    except Refused as error:
        header, body = {"error": "refused", "message": str(error)}, b""
    except AnswerTooLarge:
        header, body = {"error": "too large", "message": ""}, b""
    except (MemoryError, duckdb.OutOfMemoryException):
        header, body = {"error": "memory", "message": ""}, b""
    except duckdb.Error as error:
        header, body = {"error": "failed", **_describe_error(error, request)}, b""
    answers.write(json.dumps(header).encode() + b"\n" + body)
    answers.flush()


def _run(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    views = [View(**view) for view in request["views"]]
    check_statement(request["sql"], views)
    connection = _SPARES.take()
    lock_down(connection, views, find_macros(request["sql"]))
    sql = request["sql"]
    if request["explain"]:
        sql = quote_lines(read_plan(connection, sql), PLAN_COLUMN)
    connection.execute(sql)
    columns = [(name, str(type)) for name, type, *_ in connection.description or ()]
    converter = convert_exactly if request["exactNumbers"] else convert
    names = make_unique(number_unnamed([name for name, _ in columns]))
    converters = [convert_real if type == "FLOAT" else converter for _, type in columns]
    rows = ([each(value) for each, value in zip(converters, row, strict=True)] for row in _fetch_rows(connection))
    count, body = _encode(names, rows, request["maxBytes"])
    header = [[name, type] for name, (_, type) in zip(names, columns, strict=True)]
    return {"columns": header, "rows": count, "size": len(body)}, body


def _store(request: dict[str, Any], answers: BinaryIO) -> dict[str, Any]:
    """Write the rows to a file and return the header of the answer."""
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    views = [View(**view) for view in request["views"]]
    check_statement(request["sql"], views)
    connection = _SPARES.take()
    lock_down(connection, views, find_macros(request["sql"]), request["store"])
    sql = request["sql"]
    if request["explain"]:
        sql = quote_lines(read_plan(connection, sql), PLAN_COLUMN)
    with _watch(connection, request["store"], request["maxBytes"], answers):
        columns, count = write_parquet(connection, sql, request["store"])
    return {"columns": columns, "rows": count, "size": 0}


@contextmanager
def _watch(connection: duckdb.DuckDBPyConnection, file: str, max_bytes: int, answers: BinaryIO) -> Generator[None]:
    """Write the progress of the connection's query to the answers while the block runs, and limit the file's size."""
    done = threading.Event()

    def is_too_large() -> bool:
        return os.path.exists(file) and os.path.getsize(file) > max_bytes

    def watch() -> None:
        while not done.wait(PROGRESS_SECONDS):
            if is_too_large():
                connection.interrupt()
            percent = connection.query_progress()
            if percent >= 0:
                answers.write(json.dumps({"progress": min(percent / 100, 1)}).encode() + b"\n")
                answers.flush()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    except duckdb.InterruptException:
        raise AnswerTooLarge from None
    finally:
        done.set()
        thread.join()
    if is_too_large():
        raise AnswerTooLarge


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


def _describe_error(error: duckdb.Error, request: dict[str, Any]) -> dict[str, str]:
    """Return DuckDB's message without its quote of the rewritten SQL, and a code; nothing that could name a file."""
    text = str(error).split("\n\nLINE ")[0].partition(": ")[2]
    folders = {os.path.dirname(file) for view in request["views"] for file in view["files"]}
    if not isinstance(error, SAFE_ERRORS) or any(folder in text for folder in folders):
        return {"message": "The query failed while it read the table.", "code": "query-failed"}
    sentence = " ".join(text.split()).rstrip(".")
    code = find_code(sentence, type(error).__name__)
    sentence = sentence.replace(UNSUPPORTED, "This engine does not have: ")
    message = (sentence if len(sentence) <= MAX_MESSAGE else f"{sentence[:MAX_MESSAGE]}…") + "."
    return {"message": message, "code": code}


if __name__ == "__main__":
    main()
