"""Slugs: the lower-case `[a-z0-9_]` names that projects, jobs and datasets carry in SQL and Dagster."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container


def slugify(name: str) -> str:
    """`Café prices (EU)` → `cafe_prices_eu`; `unnamed` when nothing is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "_", ascii_name.lower()).strip("_")[:60].strip("_")
    return slug or "unnamed"


def unique_slug(name: str, taken: Container[str]) -> str:
    """The slug of `name`, with the first free `_2`, `_3`, … behind it when it is taken."""
    slug, n = slugify(name), 1
    candidate = slug
    while candidate in taken:
        n += 1
        candidate = f"{slug}_{n}"
    return candidate
