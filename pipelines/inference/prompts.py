"""Prompts: the columns that they name, like `title as name and price as cost`, and the text that they ask about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from pipelines.contract.questions import Question
from pipelines.extract.document import Document, Element
from pipelines.extract.rows import Row
from pipelines.fetch import Page

_RENAMED = re.compile(
    r"(?P<asked>[^,;:\n]*?)\bas\s+[\"'`]?(?P<name>[A-Za-z_]\w*)[\"'`]?(?=\s*(?:[,;.\n]|and\b|$))", re.IGNORECASE
)
_ITEM = re.compile(r"(?:the\s+)?(?P<name>[A-Za-z_]\w*(?:[ -]\w+){0,2})(?:\s*\([^)]*\))?", re.IGNORECASE)
_LEADING = re.compile(r"^\W*(?:(?:and|extract|get|give|find|return|the|its|a|an)\b\W*)*", re.IGNORECASE)
_PARENTHESES = re.compile(r"\([^)]*\)")
_SEPARATOR = re.compile(r"[,;\n]|\band\b", re.IGNORECASE)


def make_question(prompt: str | Sequence[str]) -> Question:
    """Return the question of a prompt, or of a list of prompts; it has no fields where the prompt names no columns."""
    prompts = [prompt] if isinstance(prompt, str) else [*prompt]
    named = [_find_names(each, is_item=len(prompts) > 1) for each in prompts]
    fields: dict[str, str] = {}
    if all(named):
        for name, asked in (pair for pairs in named for pair in pairs):
            if name.casefold() not in map(str.casefold, fields):
                fields[name] = asked
    return Question("; ".join(prompts), tuple(fields), asked=tuple(fields.values()))


def parse_html(text: str, row: Row) -> Element:
    """Return HTML or text of a column as a page at the address of its row."""
    url = row.fetched.url or ""
    body = text.encode("utf-8", "replace")
    return Document(Page(url, url, 200, None, "text/html", "utf-8", body, datetime.now(UTC)), "html").root


def _find_names(prompt: str, is_item: bool) -> list[tuple[str, str]]:
    """Return the names of columns, with the words of the prompt for them."""
    renamed = [
        (match["name"], _PARENTHESES.sub("", _LEADING.sub("", match["asked"])).strip() or match["name"])
        for match in _RENAMED.finditer(prompt)
    ]
    if renamed:
        return renamed
    _, colon, listed = prompt.rpartition(":")
    if not (colon or is_item):
        return []
    items = [each.strip(" \t-*.\"'`") for each in _SEPARATOR.split(listed)]
    found = [_ITEM.fullmatch(each) for each in items if each]
    if not found or None in found:
        return []
    names = [match["name"] for match in found if match]
    return [(re.sub(r"\W+", "_", name), name) for name in names]
