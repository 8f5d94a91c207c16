"""Slugs: the lower-case `[a-z0-9_]` names that projects, jobs and datasets carry in SQL and Dagster."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable


def slugify(name: str) -> str:
    """`Café prices (EU)` → `cafe_prices_eu`; `unnamed` when nothing is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "_", ascii_name.lower()).strip("_")[:60].strip("_")
    return slug or "unnamed"


class Slugs:
    """The slugs of one place, where each is given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._given: dict[str, int] = {}

    def give(self, name: str) -> str:
        """The slug of `name`, with the first free `_2`, `_3`, … behind it when it is taken."""
        slug = slugify(name)
        n, candidate = self._given.get(slug, 1), slug
        while candidate in self._taken:
            n += 1
            candidate = f"{slug}_{n}"
        self._given[slug] = n
        self._taken.add(candidate)
        return candidate


def unique_slug(name: str, taken: Iterable[str]) -> str:
    return Slugs(taken).give(name)
