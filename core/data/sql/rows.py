"""Rows as JSON, and the names of their columns.

Query processes import this module, so it imports nothing of the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

MAX_PAGE_BYTES = 32 * 2**20
UNNAMED = "_col"  # Trino's name of a column without one; its position follows
UNPLACED = "_col*"  # the same before its position is known; another number follows


class RowsTooLarge(Exception):
    """The rows have more bytes than an answer may have."""


def encode_rows(rows: Iterable[Mapping[str, Any]], max_bytes: int = MAX_PAGE_BYTES) -> tuple[int, bytes]:
    """Return the number of the rows, and the JSON array of them. Raises RowsTooLarge."""
    parts: list[bytes] = []
    size = 2
    for row in rows:
        parts.append(msgspec.json.encode(row))
        size += len(parts[-1]) + 1
        if size > max_bytes:
            raise RowsTooLarge
    return len(parts), b"[" + b",".join(parts) + b"]"


def number_unnamed(names: Sequence[str]) -> list[str]:
    """Give the columns whose positions were unknown their names."""
    return [f"{UNNAMED}{position}" if name.startswith(UNPLACED) else name for position, name in enumerate(names)]


def make_unique(names: Sequence[str]) -> list[str]:
    """Rename repeated names, so that all can be keys of one object: a second `a` becomes `a_1`."""
    seen: dict[str, None] = {}
    for name in names:
        candidate, n = name, 0
        while candidate in seen:
            n += 1
            candidate = f"{name}_{n}"
        seen[candidate] = None
    return list(seen)
