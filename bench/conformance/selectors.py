"""jsoup's selectors, by the golden file of the tests: how many elements each finds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from bench.conformance.cases import Case
from bench.service import CLONE, Json
from pipelines.extract import Document
from pipelines.fetch.page import Page

_FOLDER = CLONE / "tests/pipelines/extract/jsoup"
_URL = "http://example.test/docs/page.html"


def read_cases() -> list[Case]:
    cases: list[Case] = []
    for row in (_FOLDER / "golden.tsv").read_text().split("\n"):
        if row:
            page, line, count = row.split("\t")[:3]
            segments, _, selector = line.rpartition(" >>> ")
            question = {"page": str(_FOLDER / "pages" / page), "segments": segments, "selector": selector}
            cases.append(Case(f"{page} {line}", question, {"count": int(count)}))
    return cases


def count_elements(question: Json) -> Json:
    root = _parse(question["page"]).root
    scopes = root.select(question["segments"]) if question["segments"] else [root]
    return {"count": sum(len(scope.select(question["selector"])) for scope in scopes)}


@cache
def _parse(path: str) -> Document:
    with open(path, "rb") as file:
        return Document(Page(_URL, _URL, 200, None, "text/html", None, file.read(), datetime.now(UTC)))
