"""Rows as JSON.

Query processes import this module, so it imports nothing of the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

MAX_PAGE_BYTES = 32 * 2**20


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
