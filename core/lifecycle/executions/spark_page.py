"""Spark's own page of an execution, fetched for its caller.

A running driver in a pod serves the page, and a history server that of an execution that has ended. Neither has a login
for users: only this service reaches them, and returns what belongs to one execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import quote

import httpx

from core.definitions.credentials.providers import list_public_variables
from core.definitions.credentials.repository import decrypt_environment
from core.definitions.identity.api_keys import Identity
from core.errors import NotFound, Unavailable
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.pods import SPARK_PAGE_PORT
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.executions.tokens import sign_page_request
from core.tables import Execution
from core.tables.states import State
from pipelines.fetch.urls import MIN_SECRET_LENGTH, list_spellings, mask_secrets

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 60.0
MAX_BYTES = 32 * 2**20
MAX_REDIRECTS = 5
START = "jobs/"  # where the page begins
SHARED = ("static/", "favicon.ico")  # parts of a history server that belong to no execution


@dataclass(frozen=True, slots=True)
class SparkPage:
    """One answer of the page: its status, its media type and its content."""

    status: int
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Source:
    """A server of Spark: where it is, which of its paths belong to the execution, and the secrets to mask."""

    url: str
    start: str
    own: tuple[str, ...] = ("",)
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()


class SparkPages:
    """Fetches pages of the caller's organization; executions of others are unknown to it (NotFound)."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def find_address(self, execution: Mapping[str, Any], served: str) -> str | None:
        """Return where users find the page: at `served`, the address here, or at the driver's own; None without one."""
        reported: str | None = execution["spark_ui_url"]
        if reported is None:
            return None
        is_over = State(execution["state"]).terminal
        if is_over and self._settings.spark.history_url:
            return served
        if self._settings.drivers.compute == "kubernetes":
            return None if is_over else served
        return reported

    def fetch(
        self, caller: Identity, project_id: str, job_id: str, execution_id: str, path: str, query: str, base: str
    ) -> SparkPage:
        """Return a part of the page, whose links begin with the path `base`. Raises NotFound and Unavailable."""
        with self._database.read() as session:
            execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
        source = self._find_source(execution)
        return _fetch(source, path or source.start, query, base)

    def _find_source(self, execution: Execution) -> _Source:
        if execution.spark_ui_url is None:
            raise NotFound("The execution has no page of Spark: it has not used it so far.", code="no-spark-page")
        if State(execution.state).terminal:
            return self._find_history(execution)
        if self._settings.drivers.compute != "kubernetes":
            raise NotFound("The page of this execution is at its sparkUiUrl.", code="no-spark-page")
        return self._find_driver(execution)

    def _find_history(self, execution: Execution) -> _Source:
        if not self._settings.spark.history_url:
            sentence = "The execution has ended, and the service has no history server (SPINDLE_SPARK_HISTORY_URL)."
            raise NotFound(sentence, code="no-spark-page")
        own = f"history/{execution.id}/{execution.attempt}/"
        data = f"api/v1/applications/{execution.id}/{execution.attempt}/"
        return _Source(self._settings.spark.history_url.rstrip("/"), f"{own}{START}", (own, data, *SHARED))

    def _find_driver(self, execution: Execution) -> _Source:
        from core.lifecycle.spark.cluster import find_driver_address  # its client takes a second to import

        name = execution.driver.name if execution.driver else ""
        address = find_driver_address(self._settings, execution.organization_id, name) if name else None
        if address is None:
            raise NotFound("The driver of the execution is not there any more.", code="no-spark-page")
        host = f"[{address}]" if ":" in address else address
        token = sign_page_request(self._settings, name)
        return _Source(
            f"http://{host}:{SPARK_PAGE_PORT}",
            START,
            headers={"Authorization": f"Bearer {token}"},
            secrets=self._list_secrets(execution),
        )

    def _list_secrets(self, execution: Execution) -> tuple[str, ...]:
        """Return the spellings of the execution's credentials, which the plans of its queries may show."""
        values = decrypt_environment(execution, KeyRing(load_service_key(self._settings)))
        hidden = [value for name, value in values.items() if name not in list_public_variables()]
        secrets = [value for value in hidden if len(value) >= MIN_SECRET_LENGTH]
        return list_spellings([*secrets, *map(escape, secrets)])


def _fetch(source: _Source, path: str, query: str, base: str) -> SparkPage:
    """Return an answer of the server; follow redirects within the execution's own paths."""
    timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    headers = {**source.headers, "X-Forwarded-Context": base}
    with httpx.Client(headers=headers, timeout=timeout, trust_env=False) as client:
        url = httpx.URL(f"{source.url}/{quote(path)}", query=query.encode() or None)
        for _ in range(MAX_REDIRECTS):
            _check_path(source, url)
            try:
                with client.stream("GET", url) as answer:
                    if answer.next_request is None:
                        media_type = answer.headers.get("content-type", "")
                        return SparkPage(answer.status_code, media_type, _read(answer, source))
                    url = _strip(answer.next_request.url, base)
            except httpx.TransportError as error:
                sentence = f"Spark's page does not answer: {type(error).__name__}."
                raise Unavailable(sentence, code="spark-page-unavailable") from error
    raise Unavailable("Spark's page leads from one address to another.", code="spark-page-unavailable")


def _check_path(source: _Source, url: httpx.URL) -> None:
    """Raise NotFound for an address of another server or execution."""
    text, path = str(url), url.path.removeprefix("/")
    is_own = text.startswith(f"{source.url}/") and any(path.startswith(each) for each in source.own)
    if not is_own or any(part in (".", "..") for part in path.split("/")) or "\\" in path:
        raise NotFound("Spark's page has no such part for this execution.", code="no-spark-page")


def _strip(url: httpx.URL, base: str) -> httpx.URL:
    """Return the address of a redirect as the server itself has it, without the path that it puts before its links."""
    return url.copy_with(path=url.path.removeprefix(base)) if url.path.startswith(f"{base}/") else url


def _read(answer: httpx.Response, source: _Source) -> bytes:
    content = bytearray()
    for part in answer.iter_bytes():
        content += part
        if len(content) > MAX_BYTES:
            sentence = f"This part of Spark's page has more than {MAX_BYTES:,} bytes."
            raise Unavailable(sentence, code="spark-page-unavailable")
    if not source.secrets:
        return bytes(content)
    return mask_secrets(content.decode("utf-8", "surrogateescape"), source.secrets).encode("utf-8", "surrogateescape")
