"""JSON that the scripts of a page request, as documents in place of the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page as PlaywrightPage
from playwright.async_api import Request, Response

from pipelines.browser.failures import VisitFailed
from pipelines.extract.patterns import Pattern, SelectorFailed, compile_pattern
from pipelines.fetch import FetchOptions, Page, canonical_url
from pipelines.fetch.failures import describe_too_large
from pipelines.fetch.page import parse_content_type

_JSON = "application/json"
_TYPES = frozenset(("fetch", "xhr"))  # of requests by scripts
_TICK = 0.05
_ENDING_SECONDS = 10.0  # for answers that have begun when the trace ends
_MAX_ANSWERS = 1000  # of one page
_MAX_SHOWN = 3  # addresses in the sentence of a failure


class CapturedAnswers:
    """The JSON answers to the requests of a page's scripts whose addresses match a pattern, in the requests' order.

    An answer to a request that is repeated replaces the earlier one. Answers that are not JSON do not count, but those
    with the status of an error do.
    """

    def __init__(self, page: PlaywrightPage, options: FetchOptions, patterns: Sequence[str]) -> None:
        self._page = page
        self._options = options
        self._searched: dict[Pattern, float] = {}
        searches = ((text, compile_pattern(text).limit_to_page(self._searched)) for text in patterns)
        self._searches = dict(searches)
        self._answers: dict[tuple[str, ...], asyncio.Task[Page | None]] = {}
        self._matched: dict[tuple[str, ...], set[str]] = {}
        self._wanted = dict.fromkeys(patterns, 1)
        self._other = dict[str, None]()  # addresses that matched no pattern
        self._failure: str | None = None
        page.on("response", self._add)

    def close(self) -> None:
        self._page.remove_listener("response", self._add)
        for task in self._answers.values():
            task.cancel()

    async def wait(self, pattern: str, at_least: int, seconds: float) -> None:
        """Return when so many answers of a pattern have arrived, or the time is over: later ones count too."""
        self._wanted[pattern] = max(at_least, self._wanted[pattern])
        end = asyncio.get_running_loop().time() + seconds
        while self._failure is None and asyncio.get_running_loop().time() < end:
            if self._count(pattern) >= at_least:
                return
            await asyncio.sleep(_TICK)

    def _count(self, pattern: str, *, unfinished: bool = False) -> int:
        """Count the pattern's answers, also those whose bodies have not ended where these are wanted."""
        answers = [key for key, task in self._answers.items() if _has_page(task) or (unfinished and not task.done())]
        return sum(pattern in self._matched[key] for key in answers)

    async def take(self) -> list[Page]:
        """Return the documents, after the end of those that have begun; raise VisitFailed if a pattern lacks some."""
        if self._answers:
            await asyncio.wait(self._answers.values(), timeout=_ENDING_SECONDS)
        if self._failure:
            raise VisitFailed(self._failure)
        for pattern, wanted in self._wanted.items():
            if (count := self._count(pattern, unfinished=True)) < wanted:
                came = f"no JSON came from an address that matches '{pattern}'"
                if count:
                    came = f"too little JSON came from addresses that match '{pattern}': {count} of {wanted} answers"
                shown = ", ".join([*self._other][:_MAX_SHOWN]) or "none"
                raise VisitFailed(f"{came}; other addresses that the page's scripts asked: {shown}")
        return [page for page in map(self._finish, self._answers.items()) if page]

    def _finish(self, answer: tuple[tuple[str, ...], asyncio.Task[Page | None]]) -> Page | None:
        (_, address, _), task = answer
        if task.done():
            return task.result()
        task.cancel()
        return self._create_page(address, None, f"timed out: its JSON did not end within {_ENDING_SECONDS:g} s")

    def _add(self, response: Response) -> None:
        request = response.request
        if request.resource_type not in _TYPES or request.method == "OPTIONS" or 300 <= response.status < 400:
            return
        try:
            matched = {text for text, search in self._searches.items() if search(request.url)}
        except SelectorFailed as error:
            self._failure = str(error)
            return
        if not matched:
            if len(self._other) < _MAX_SHOWN:  # without the query, which may hold secrets
                self._other[request.url.partition("?")[0][:200]] = None
            return
        key = _make_key(request)
        if key not in self._answers and len(self._answers) >= _MAX_ANSWERS:
            self._failure = f"more than {_MAX_ANSWERS:,} answers match: make the pattern of capture narrower"
            return
        self._matched[key] = matched
        self._answers[key] = asyncio.ensure_future(self._read(response))

    async def _read(self, response: Response) -> Page | None:
        try:
            body = await response.body()
        except PlaywrightError:  # the page has left before
            return self._create_page(response.url, response.status, "the connection to the page's JSON ended early")
        if len(body) > self._options.max_body:
            return self._create_page(response.url, response.status, describe_too_large(self._options))
        kind, charset = parse_content_type(response.headers.get("content-type", "").encode("latin-1", "replace"))
        if response.status < 400 and not _is_json(kind, body):
            return None
        page = self._create_page(response.url, response.status, None, body, charset or "utf-8")
        page.head = format_headers(response)
        return page

    def _create_page(
        self, url: str, status: int | None, error: str | None, body: bytes = b"", charset: str = "utf-8"
    ) -> Page:
        address, now = canonical_url(url) or url, datetime.now(UTC)
        return Page(address, address, status, error, _JSON, charset, body, now, received=len(body))


def format_headers(response: Response | None) -> bytes:
    """Return the header lines of an answer, nothing without one."""
    headers = response.headers if response else {}
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1", "replace")


def _has_page(task: asyncio.Task[Page | None]) -> bool:
    return task.done() and not task.cancelled() and task.result() is not None


def _make_key(request: Request) -> tuple[str, ...]:
    return request.method, request.url, request.post_data or ""


def _is_json(kind: str | None, body: bytes) -> bool:
    if kind == _JSON or (kind or "").endswith("+json"):
        return True
    if body.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(body)
    except ValueError:
        return False
    return True
