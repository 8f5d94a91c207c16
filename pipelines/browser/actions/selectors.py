"""Selectors of elements in the browser, which reads more than CSS: what can be no selector is told before the run."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from pipelines.extract.selectors import find_length_fault

# begins a part that is not CSS: engine=..., an XPath, quoted text
_OTHER = re.compile(r"\s*+(?:[\w+:*-]++\s*+=|\(*+//|\.\.|[\"'])")
_TOKEN = re.compile(r"\\.|>>|[\[\]()\"']", re.DOTALL)
_CLOSING = {"[": "]", "(": ")"}


def _check(text: str) -> str:
    if "${" in text:
        return text
    if fault := find_length_fault(text) or _fault(text):
        raise ValueError(f"not a selector: {fault}")
    return text


def _fault(text: str) -> str | None:
    """What is surely wrong in the CSS with which `text` begins, in each of its parts between `>>`."""
    if "/*" in text or "`" in text:
        return None
    start, quote = 0, ""
    awaited: list[str] = []
    if _OTHER.match(text):
        return None
    for token in _TOKEN.finditer(f"{text}>>"):
        found = token[0]
        if found.startswith("\\"):
            continue
        if quote or found in "\"'":
            quote = "" if found == quote else quote or found
        elif found in _CLOSING:
            awaited.append(_CLOSING[found])
        elif found in ("]", ")"):
            if not awaited or awaited.pop() != found:
                return f"nothing opens the {found} at {token.start() + 1}"
        elif found == ">>":
            if awaited:
                return f"a {awaited[-1]} is missing"
            if not text[start : token.start()].strip():
                return "it is empty, or a part of it between >>"
            start = token.end()
            if _OTHER.match(text, start):
                return None
    return "a quote does not end" if quote else None


PageSelector = Annotated[str, Field(min_length=1), AfterValidator(_check)]
