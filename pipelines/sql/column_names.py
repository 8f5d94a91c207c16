"""Names of a statement's columns. Query processes import this module, so it imports nothing of the service."""

from __future__ import annotations

from collections.abc import Sequence

UNNAMED = "_col"  # Trino's name of a column without one; its position follows
UNPLACED = "_col*"  # the same before its position is known; another number follows


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
