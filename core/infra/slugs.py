"""Slugs: the lower-case `[a-z0-9_]` names of projects, jobs and datasets in SQL and Dagster."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable


def make_slug(name: str) -> str:
    """Convert `Café prices (EU)` to `cafe_prices_eu`; return `unnamed` if the result is empty."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "_", ascii_name.lower()).strip("_")[:60].strip("_")
    return slug or "unnamed"


class SlugAllocator:
    """Allocates slugs that are unique within one namespace, such as a project's jobs."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)
        self._last_numbers: dict[str, int] = {}

    def allocate(self, name: str) -> str:
        """Return the slug of `name`, with a suffix (`_2`, `_3`, …) if it is used already."""
        slug = make_slug(name)
        number, candidate = self._last_numbers.get(slug, 1), slug
        while candidate in self._used:
            number += 1
            candidate = f"{slug}_{number}"
        self._last_numbers[slug] = number
        self._used.add(candidate)
        return candidate


def make_unique_slug(name: str, used: Iterable[str]) -> str:
    return SlugAllocator(used).allocate(name)
