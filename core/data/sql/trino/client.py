"""Statements on Trino: sent as a user, read in batches, and stopped at a time limit or by a cancel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from trino.auth import BasicAuthentication
from trino.client import ClientSession, TrinoQuery, TrinoRequest
from trino.exceptions import Error as TrinoError
from trino.exceptions import TrinoDataError, TrinoQueryError

from core.data.sql.engine import QueryCancelled, report_memory_limit, report_timeout
from core.errors import BadInput, SpindleError, Unavailable
from core.infra.settings.sql import TrinoSettings

CONNECT_SECONDS, READ_SECONDS = 5, 60
ATTEMPTS = 3
POOL_SIZE = 32
MAX_MESSAGE = 1000
POSITION = re.compile(r"^line \d+:\d+: ")  # in the rewritten statement, which the caller never sees
NOT_FOUND = ("TABLE_NOT_FOUND", "SCHEMA_NOT_FOUND")
TIME_LIMITS = ("EXCEEDED_TIME_LIMIT", "EXCEEDED_CPU_LIMIT")
MEMORY_LIMITS = (
    "EXCEEDED_LOCAL_MEMORY_LIMIT",
    "EXCEEDED_GLOBAL_MEMORY_LIMIT",
    "EXCEEDED_SPILL_LIMIT",
    "CLUSTER_OUT_OF_MEMORY",
)
OVERFLOW = re.compile(r"\boverflow\b|out of range", re.IGNORECASE)  # of a value; Trino names it an internal error
NO_WORKERS = "NO_NODES_AVAILABLE"  # of a Trino that begins: its kind is an internal error
CANCELS = ("USER_CANCELED", "ADMINISTRATIVELY_CANCELED")
DOWN = "Trino does not answer. Try again in a moment."


class TableGone(SpindleError):
    """A table that was registered is not in Trino any more."""


class _Stopped(Exception):
    """Raised between two requests of a statement that was cancelled or is out of time."""


class TrinoStatement:
    """One statement. `cancel` may be called by another thread at any time."""

    def __init__(self, request: TrinoRequest, sql: str, seconds: float, report: Callable[[float], object]) -> None:
        self._query = TrinoQuery(request, sql, stats_callback=self._check)
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._report = report
        self._cancelled = False

    def read(self) -> Generator[Sequence[Sequence[Any]]]:
        """Run the statement and yield its rows in batches. Raises BadInput, Unavailable, TableGone."""
        try:
            yield list(self._query.execute().rows or ())
            while not self._query.finished:
                yield list(self._query.fetch())
        except _Stopped:
            self._stop()
            raise self._describe_stop() from None
        except TrinoQueryError as error:
            raise self._describe_stop() if self._cancelled else translate_error(error, self._seconds) from None
        except TrinoDataError as error:
            self._stop()
            sentence = f"{str(error).rstrip('.')}: it is outside of the years 1 to 9999."
            raise BadInput(sentence, code="NUMERIC_VALUE_OUT_OF_RANGE") from None
        except (TrinoError, requests.RequestException):
            raise self._describe_stop() if self._cancelled else Unavailable(DOWN, code="trino-unavailable") from None
        except GeneratorExit:
            self._stop()
            raise
        if self._cancelled:
            raise self._describe_stop()

    @property
    def columns(self) -> list[dict[str, Any]]:
        """Names and types as Trino sends them, once rows or the end were read."""
        return cast(list[dict[str, Any]], self._query.columns or [])

    def cancel(self) -> None:
        self._cancelled = True
        self._stop()

    def _stop(self) -> None:
        with suppress(TrinoError, requests.RequestException):
            self._query.cancel()

    def _check(self, stats: dict[str, Any]) -> None:
        if self._cancelled or time.monotonic() > self._deadline:
            raise _Stopped
        percent = stats.get("progressPercentage")
        if percent is not None:
            self._report(min(percent / 100, 1))

    def _describe_stop(self) -> SpindleError:
        return QueryCancelled("The query was cancelled.") if self._cancelled else report_timeout(self._seconds)


class TrinoClient:
    """Sends statements to the Trino of a setting, each as the user that it is for."""

    def __init__(self, settings: TrinoSettings) -> None:
        parts = urlsplit(settings.address or "")
        self._scheme, self._host = parts.scheme, parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self.admin = settings.user
        self._password = settings.password
        self._verify = str(settings.certificates) if settings.certificates else True
        self._connections = HTTPAdapter(pool_connections=1, pool_maxsize=POOL_SIZE)

    def start(
        self, user: str, sql: str, seconds: float, report: Callable[[float], object] = lambda _: None
    ) -> TrinoStatement:
        """Return a statement that begins when its rows are read."""
        session = requests.Session()  # a new one: it holds the user; the connections are shared
        session.mount(f"{self._scheme}://", self._connections)
        session.verify = self._verify
        request = TrinoRequest(
            self._host,
            self._port,
            ClientSession(user=user, source="spindle", timezone="UTC"),
            http_session=session,
            http_scheme=self._scheme,
            auth=self._authenticate(),
            max_attempts=ATTEMPTS,
            request_timeout=(CONNECT_SECONDS, READ_SECONDS),
        )
        return TrinoStatement(request, sql, seconds, report)

    def fetch(self, sql: str, user: str | None = None, seconds: float = 60) -> list[Sequence[Any]]:
        """Run a statement, by default as the administrator, and return all its rows."""
        statement = self.start(user or self.admin, sql, seconds)
        return [row for batch in statement.read() for row in batch]

    def check(self) -> None:
        """Raise Unavailable unless Trino answers and has started."""
        try:
            address = f"{self._scheme}://{self._host}:{self._port}/v1/info"
            answer = requests.get(address, timeout=CONNECT_SECONDS, verify=self._verify)
            ready = answer.ok and not answer.json().get("starting")
        except (requests.RequestException, ValueError):
            ready = False
        if not ready:
            raise Unavailable(DOWN, code="trino-unavailable")

    def close(self) -> None:
        self._connections.close()

    def _authenticate(self) -> BasicAuthentication | None:
        if self._password is None:
            return None
        return BasicAuthentication(self.admin, self._password.get_secret_value())


def translate_error(error: TrinoQueryError, seconds: float) -> SpindleError:
    """Return the error for callers; its code is Trino's name where the statement is to blame."""
    name, kind = error.error_name or "GENERIC_INTERNAL_ERROR", error.error_type
    message = " ".join(POSITION.sub("", error.message).split()).rstrip(".")
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}…"
    if name in CANCELS:
        return QueryCancelled("The query was cancelled.")
    if name in NOT_FOUND:
        return TableGone(f"{message}.", code="unknown-table")
    if name in TIME_LIMITS:
        return report_timeout(seconds)
    if name in MEMORY_LIMITS:
        return report_memory_limit()
    if kind == "USER_ERROR":
        return BadInput(f"{message}.", code=name)
    if name == "GENERIC_INTERNAL_ERROR" and message == "/ by zero":  # of mod(1, 0)
        return BadInput("Division by zero.", code="DIVISION_BY_ZERO")
    if name == "GENERIC_INTERNAL_ERROR" and OVERFLOW.search(message):
        return BadInput(f"{message}.", code="NUMERIC_VALUE_OUT_OF_RANGE")
    if kind == "INSUFFICIENT_RESOURCES" or name == NO_WORKERS:
        return Unavailable("Trino has no room for the query; try again in a moment.", code="queries-busy")
    return Unavailable("Trino could not read the table.", code=name)
