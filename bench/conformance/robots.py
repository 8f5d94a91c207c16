"""Robots rules: the questions of Protego's tests, and of those of the port of Google's parser (RFC 9309)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bench.conformance.cases import Case
from bench.conformance.sources import get_python_source, install_peers
from bench.contenders import read_output
from bench.service import Json
from pipelines.fetch.page import Page
from pipelines.fetch.robots import read_robots
from pipelines.fetch.urls import canonical_url

# numbers of the cases to which RFC 9309 has the other answer, by its sections
_BY_STANDARD = {
    "protego": {
        "2.2.1, a group is for the crawler whose whole name it has": (2, 8, 9, 11, 12, 16, 17, 367),
        "2.2.4, a line that is no rule does not end a group": (355, 356, 357),
    },
    "google": {
        "2.2.2, octets outside of ASCII are escaped, and escapes of ASCII are not, before they are compared": (
            78,
            80,
            81,
        ),
        "2.5, at least 500 KiB are parsed, whatever the length of a line": (66, 69),
    },
}
_SITE = "https://www.site.local"


def read_protego_cases() -> list[Case]:
    return _record("protego", get_python_source("protego", "0.7.0") / "tests")


def read_google_cases() -> list[Case]:
    return _record("google", get_python_source("gpyrobotstxt", "1.0.0") / "test")


def _record(suite: str, folder: Path) -> list[Case]:
    """Return the questions of the tests with their answers, or else the standard's."""
    asked = read_output([install_peers(), "-m", "bench.conformance.robots_recorder", suite, folder])["asked"]
    other = {number for numbers in _BY_STANDARD[suite].values() for number in numbers}
    cases: list[Case] = []
    for number, (name, question, answer) in enumerate(asked, start=1):
        right = {"allowed": not answer["allowed"]} if number in other else answer
        cases.append(Case(f"{name} {number}", question, right))
    return cases


def ask_product(question: Json) -> Json:
    """Return whether the URL may be fetched, or the seconds between two requests."""
    page = Page(
        f"{_SITE}/robots.txt",
        f"{_SITE}/robots.txt",
        200,
        None,
        "text/plain",
        None,
        question["robots"].encode(),
        datetime.now(UTC),
    )
    rules = read_robots(page, question["agent"])
    if "url" not in question:
        return {"delay": rules.crawl_delay}
    return {"allowed": rules.find_refusal(canonical_url(question["url"], _SITE) or question["url"]) is None}
