"""The columns of tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column, the name of its type, and its meaning where its pipeline says so."""

    name: str
    type: str
    description: str | None = None
