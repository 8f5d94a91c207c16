"""Texts in Markdown as chunks: a section for each heading, in parts of a limited size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TOKEN_BYTES = 4  # of UTF-8, which a token of a language model has on average
_LONGEST_NAME = 60  # characters of a heading in an id


class Chunk(NamedTuple):
    """A part of a text: its headings from the outermost on, and its place, which later parts do not change."""

    place: str
    headings: tuple[str, ...]
    text: str


def build_splitter(by_headings: bool, size: int, overlap: int) -> Callable[[str], Iterator[Chunk]]:
    """Return a function that splits texts into chunks of at most `size` tokens, of which neighbors share `overlap`."""
    from semantic_text_splitter import MarkdownSplitter

    splitter = MarkdownSplitter.from_callback(count_tokens, size, overlap)

    def split(text: str) -> Iterator[Chunk]:
        places = Counter[str]()
        for headings, section in _list_sections(text) if by_headings else [((), text)]:
            name = "/".join(map(_make_name, headings))
            places[name] += 1
            place = name if places[name] == 1 else f"{name}~{places[name]}"
            for number, part in enumerate(splitter.chunks(section), start=1):
                yield Chunk(place if number == 1 else f"{place}.{number}", headings, part)

    return split


def count_tokens(text: str) -> int:
    return -(-len(text.encode()) // _TOKEN_BYTES)


def _list_sections(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the sections of a text with their headings; one that has only its heading has no section."""
    path: dict[int, str] = {}
    lines: list[str] = []
    has_text, fence = False, ""
    for line in text.splitlines():
        marks = _FENCE.match(line)
        if marks and not fence:
            fence = marks[1]
        elif marks and line.strip().strip(fence[0]) == "" and len(marks[1]) >= len(fence):
            fence = ""
        heading = None if fence or marks else _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            has_text = has_text or bool(line.strip())
            continue
        if has_text:
            yield tuple(path.values()), "\n".join(lines)
        level = len(heading[1])
        path = {each: name for each, name in path.items() if each < level}
        path[level] = _LINK.sub(r"\1", heading[2]).strip()
        lines, has_text = [line], False
    if has_text:
        yield tuple(path.values()), "\n".join(lines)


def _make_name(heading: str) -> str:
    """Return a heading as a part of an id; a long one is cut, and told apart by its hash."""
    name = re.sub(r"[^\w]+", "-", heading.casefold()).strip("-")
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}-{xxh3_64_hexdigest(heading.encode())[:8]}"
