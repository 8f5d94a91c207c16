"""Selectors of elements in the browser, which supports more than CSS: certain errors are found before the run."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from pipelines.errors import ArgumentError
from pipelines.extract.selectors import find_length_fault

# the start of a part that is not CSS: engine=..., an XPath, quoted text
_OTHER = re.compile(r"\s*+(?:[\w+:*-]++\s*+=|\(*+//|\.\.|[\"'])")
_TOKEN = re.compile(r"\\.|>>|[\[\]()\"']", re.DOTALL)
_CLOSING = {"[": "]", "(": ")"}


def _validate(text: str) -> str:
    if "${" in text:
        return text
    if error := find_length_fault(text) or _find_error(text):
        raise ArgumentError(f"not a selector: {error}", "invalid-selector")
    return text


def _find_error(text: str) -> str | None:
    """Return an error that is certain in the leading CSS parts of `text`, which `>>` separates."""
    if "/*" in text or "`" in text:
        return None
    start, quote = 0, ""
    expected: list[str] = []
    if _OTHER.match(text):
        return None
    for token in _TOKEN.finditer(f"{text}>>"):
        found = token[0]
        if found.startswith("\\"):
            continue
        if quote or found in "\"'":
            quote = "" if found == quote else quote or found
        elif found in _CLOSING:
            expected.append(_CLOSING[found])
        elif found in ("]", ")"):
            if not expected or expected.pop() != found:
                return f"nothing opens the {found} at {token.start() + 1}"
        elif found == ">>":
            if expected:
                return f"a {expected[-1]} is missing"
            if not text[start : token.start()].strip():
                return "it is empty, or a part of it between >>"
            start = token.end()
            if _OTHER.match(text, start):
                return None
    return "a quote does not end" if quote else None


PageSelector = Annotated[str, Field(min_length=1), AfterValidator(_validate)]
