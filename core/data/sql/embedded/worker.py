"""A query process: answers one request after the other. messages.py has their form."""

from __future__ import annotations

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

from core.data.processes import limit_resources
from core.data.sql.embedded.messages import Header, QueryRequest
from core.data.sql.rows import RowsTooLarge, encode_rows
from pipelines.duckdb.failures import describe_failure
from pipelines.duckdb.file_types import FileTypes
from pipelines.duckdb.lockdown import Refused, check_statement, lock_down, open_database
from pipelines.duckdb.macros import find_macros
from pipelines.duckdb.storable_rows import select_storable
from pipelines.duckdb.values import describe_duckdb_type, make_converter
from pipelines.duckdb.views import quote_identifier, quote_literal
from pipelines.sql.column_names import make_unique, number_unnamed

DUCKDB_MEMORY = "1GB"
FILE_SIZE = 4 * 2**30
CHUNK_ROWS = 500
PROGRESS_SECONDS = 0.5
NICENESS = 10  # of stored queries, for which nobody waits
PLAN_COLUMN = "Query Plan"


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
_FILE_TYPES = FileTypes()


def main() -> None:
    limit_resources()
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not reach the pipe
    _SPARES.refill()
    for line in sys.stdin.buffer:
        request = QueryRequest.from_line(line)
        _die_after(request.seconds)
        _answer(request, answers)
        _SPARES.refill()
        _die_after(0)
    shutil.rmtree(os.getcwd(), ignore_errors=True)  # the server does so too, unless it was killed


def _die_after(seconds: float) -> None:
    """Let the kernel end this process after a time, in case the server that would do so has died. 0 cancels."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(request: QueryRequest, answers: BinaryIO) -> None:
    body = b""
    try:
        connection, sql = _prepare(request)
        if request.store is None:
            header, body = _run(connection, sql, request)
        else:
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
            with _watch(connection, request.store, request.max_bytes, answers):
                columns, count = write_parquet(connection, sql, request.store)
            header = Header(columns, count)
    except Refused as error:
        header = Header(failure="refused", message=str(error))
    except RowsTooLarge:
        header = Header(failure="too large")
    except (MemoryError, duckdb.OutOfMemoryException):
        header = Header(failure="memory")
    except duckdb.Error as error:
        sentence, code = describe_failure(error, [file for view in request.views for file in view.files])
        header = Header(failure="failed", message=sentence, code=code)
    answers.write(header.to_line() + body)
    answers.flush()


def _prepare(request: QueryRequest) -> tuple[duckdb.DuckDBPyConnection, str]:
    """Check the statement; return a locked database with its views, and the statement that gives the rows."""
    check_statement(request.sql, request.views)
    connection = _SPARES.take()
    lock_down(connection, request.views, _FILE_TYPES, find_macros(request.sql), request.store)
    return connection, quote_lines(read_plan(connection, request.sql), PLAN_COLUMN) if request.explain else request.sql


def _run(connection: duckdb.DuckDBPyConnection, sql: str, request: QueryRequest) -> tuple[Header, bytes]:
    connection.execute(sql)
    described = [(name, type) for name, type, *_ in connection.description or ()]
    names = make_unique(number_unnamed([name for name, _ in described]))
    types = [str(type) for _, type in described]
    converters = [make_converter(describe_duckdb_type(type), request.exact_numbers) for _, type in described]
    rows = (
        {name: to_json(value) for name, to_json, value in zip(names, converters, row, strict=True)}
        for row in _fetch_rows(connection)
    )
    count, body = encode_rows(rows, request.max_bytes)
    return Header(list(zip(names, types, strict=True)), count, len(body)), body


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
                answers.write(Header(progress=min(percent / 100, 1)).to_line())
                answers.flush()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    except duckdb.InterruptException:
        raise RowsTooLarge from None
    finally:
        done.set()
        thread.join()
    if is_too_large():
        raise RowsTooLarge


def _fetch_rows(connection: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while chunk := connection.fetchmany(CHUNK_ROWS):
        yield from chunk


def write_parquet(connection: duckdb.DuckDBPyConnection, sql: str, path: str) -> tuple[list[tuple[str, str]], int]:
    """Write the rows of a query, in their order, to a file; return its columns with DuckDB's types, and the rows."""
    described, storable = select_storable(connection, sql)
    copy = f"COPY ({storable}) TO {quote_literal(path)} (FORMAT parquet)"
    (count,) = connection.execute(copy).fetchone() or (0,)
    names = make_unique([name for name, _ in described])
    return [(name, type) for name, (_, type) in zip(names, described, strict=True)], count


def quote_lines(lines: Sequence[str], name: str) -> str:
    """Return a query whose rows are these texts."""
    values = ", ".join(f"({quote_literal(line)})" for line in lines)
    return f"SELECT * FROM (VALUES {values}) AS lines({quote_identifier(name)})"  # noqa: S608 - quoted


def read_plan(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """Return the lines of a query's plan."""
    rows = connection.execute(f"EXPLAIN {sql}").fetchall()
    return [line.rstrip() for *_, plan in rows for line in str(plan).splitlines()]


if __name__ == "__main__":
    main()
