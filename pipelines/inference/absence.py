"""Error pages with status 200: their heading says "not found"."""

from __future__ import annotations

import re

from pipelines.extract.document import Element

ABSENT = "the page says that it does not exist, although the server answered with success"
_MAX_HEADING = 100  # characters
_PARTS = re.compile(r"\s[|\u2013\u2014:-]\s|\|")
_MISSING = r"not (?:be )?found|(?:does not|doesn.t|no longer) exists?|no longer available|nicht gefunden"
_SIGNS = re.compile(rf"404|{_MISSING}", re.IGNORECASE)
_WHOLE = re.compile(
    r"\W*(?:error|oops|sorry|http|fehler|\W)*(?:404)?\W*(?:the |this |that |your |die |diese )*(?:requested )?"
    r"(?:page|product|item|article|content|document|offer|seite)?(?: you[\w' ]{0,40})?\W*"
    rf"(?:was|is|could|can|has|wurde)?\s*(?:{_MISSING})?\W*",
    re.IGNORECASE,
)


def says_absent(element: Element) -> bool:
    """Return whether the title or main heading of a page is nothing but the sentence that it was not found."""
    if not element.is_page:
        return False
    texts = [each.text() for each in (element.first("h1"), element.first("title")) if each is not None]
    return any(_is_absence(part) for text in texts for part in _PARTS.split(text[:_MAX_HEADING]))


def _is_absence(text: str) -> bool:
    return _SIGNS.search(text) is not None and _WHOLE.fullmatch(text) is not None
