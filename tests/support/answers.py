"""The answers of the API that tests have seen, compared with those that its OpenAPI file lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import httpx


class Answer(NamedTuple):
    """One answer: its request, its status, and the codes of its errors."""

    method: str
    path: str
    status: int
    codes: tuple[str, ...] = ()


SEEN: set[Answer] = set()


def record_answer(response: httpx.Response) -> None:
    """Remember an answer; an event hook of httpx."""
    codes: tuple[str, ...] = ()
    if response.status_code >= 400 and response.headers.get("content-type", "").startswith("application/json"):
        response.read()
        body = response.json() if response.content else {}
        details = body.get("details", ()) if isinstance(body, dict) else ()
        codes = tuple(sorted({str(detail["code"]) for detail in details}))
    path = response.request.url.raw_path.decode().partition("?")[0]
    SEEN.add(Answer(response.request.method, path, response.status_code, codes))


def find_unlisted(document: Mapping[str, Any], answers: Iterable[Answer]) -> list[str]:
    """Return the answers of documented operations whose status or error code the OpenAPI file does not list.

    Trino's own names of errors are codes too.
    """
    listed = document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["description"]
    codes = set(re.findall(r"^- `([\w-]+)`:", listed, re.MULTILINE))
    patterns = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in document["paths"]]
    patterns.sort(key=lambda pattern: pattern[1].count("{"))
    found: set[str] = set()
    for answer in answers:
        found |= {f"code {code}" for code in answer.codes if code not in codes and not code.isupper()}
        method = "get" if answer.method == "HEAD" else answer.method.lower()
        fitting = (path for pattern, path in patterns if pattern.fullmatch(answer.path))
        path = next((path for path in fitting if method in document["paths"][path]), None)
        if (
            path is not None
            and answer.status != 405
            and str(answer.status) not in document["paths"][path][method]["responses"]
        ):
            found.add(f"{answer.method} {path} {answer.status} {' '.join(answer.codes)}".rstrip())
    return sorted(found)
