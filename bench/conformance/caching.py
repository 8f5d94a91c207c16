"""HTTP caching (RFC 9111): the cases of http-cache-semantics, as a client's cache meets them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from bench.conformance.cases import Case
from bench.conformance.sources import get_node_source
from bench.contenders import read_output
from bench.service import CLONE, Json
from pipelines.fetch.page import Page, parse_http_date
from pipelines.fetch.transfer import _make_conditions  # pyright: ignore[reportPrivateUsage]
from pipelines.page_cache.cache import get_lifetime, is_shareable

_MARGIN = 10  # seconds before and after the end of a lifetime, at which answers are asked


def read_cases() -> list[Case]:
    package = get_node_source("http-cache-semantics", "3.7.3")
    asked = read_output(["node", CLONE / "bench/conformance/cache_recorder.js", package])["asked"]
    cases: list[Case] = []
    for number, each in enumerate(asked, start=1):
        name = f"{each['test']} ({number})"
        match each["method"], each["answer"]:
            case "storable", answer:
                cases.append(_make_case(name, each, "stored", answer))
            case "stale", answer:
                cases.append(_make_case(name, each, "fresh", not answer))
            case "satisfiesWithoutRevalidation", answer:
                cases.append(_make_case(name, each, "used", answer))
            case "timeToLive", milliseconds if milliseconds == 0:
                cases.append(_make_case(name, each, "fresh", False, _MARGIN))
            case "timeToLive", milliseconds if milliseconds > 2 * _MARGIN * 1000:
                end = milliseconds / 1000
                cases.append(_make_case(f"{name} before", each, "fresh", True, end - _MARGIN))
                cases.append(_make_case(f"{name} after", each, "fresh", False, end + _MARGIN))
            case "revalidationHeaders", headers:
                cases.append(_make_case(name, each, "etag", headers.get("if-none-match")))
                cases.append(_make_case(name, each, "modified", headers.get("if-modified-since")))
            case _:
                pass
    return cases


def _make_case(name: str, asked: Json, what: str, answer: object, later: float = 0) -> Case:
    """Return the case of an answer that arrived `elapsed` seconds ago; servers send a Date."""
    elapsed = asked["elapsed"] + later
    headers = {key.lower(): _shift(str(value), later) for key, value in asked["response"]["headers"].items()}
    if "date" not in headers:
        headers["date"] = format_datetime(datetime.now(UTC) - timedelta(seconds=elapsed), usegmt=True)
    question = {
        "request": _read_request(asked["request"]),
        "next": _read_request(asked["next"] or asked["request"]),
        "status": asked["response"].get("status", 200),
        "headers": headers,
        "elapsed": elapsed,
        "what": what,
    }
    return Case(name, question, {what: answer})


def _shift(value: str, seconds: float) -> str:
    """Return a date in the past by so many seconds, other values as they are."""
    at = parse_http_date(value) if value.endswith("GMT") and seconds else None
    return format_datetime(at.astimezone(UTC) - timedelta(seconds=seconds), usegmt=True) if at else value


def _read_request(request: Json) -> Json:
    headers = {key.lower(): value for key, value in request.get("headers", {}).items()}
    url = f"http://{headers.pop('host', 'page.test')}{request.get('url', '/')}"
    return {"method": request.get("method", "GET"), "url": url, "headers": headers}


def ask_product(question: Json) -> Json:
    """Return whether an answer is stored for later executions, fresh, or used for the next request."""
    url, what = question["request"]["url"], question["what"]
    lines = [f"{name}: {value}\r\n" for name, value in question["headers"].items()]
    arrived = datetime.now(UTC) - timedelta(seconds=question["elapsed"])
    page = Page(url, url, question["status"], None, None, None, b"", arrived, (), "".join(lines).encode("latin-1"))
    is_same = question["request"] == question["next"]
    is_stored = is_shareable(page) and question["request"]["method"] == "GET"
    is_fresh = is_stored and datetime.now(UTC) - arrived < get_lifetime(page, timedelta())
    varies = "*" in "".join(page.headers("vary"))
    conditions = [each.decode("latin-1") for each in _make_conditions(page if is_same else None)]
    answers = {
        "stored": is_stored,
        "fresh": is_fresh and not varies,
        "used": is_fresh and not varies and is_same,
        "etag": _find(conditions, "If-None-Match: "),
        "modified": _find(conditions, "If-Modified-Since: "),
    }
    return {what: answers[what]}


def _find(lines: list[str], start: str) -> str | None:
    return next((line.removeprefix(start) for line in lines if line.startswith(start)), None)
