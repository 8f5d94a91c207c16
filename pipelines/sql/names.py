"""Names of tables in a statement, and near matches of unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name in a query, in lower case: `name`, `schema.name` or `catalog.schema.name`."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)


def suggest(wanted: str, known: Iterable[str]) -> str:
    """Return ` (near matches: a, b)`, or nothing when no known name is similar."""
    matches = get_close_matches(wanted.lower(), list(known), n=3, cutoff=0.6)
    return f" (near matches: {', '.join(matches)})" if matches else ""
