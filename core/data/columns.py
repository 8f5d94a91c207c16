"""The columns of tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column and the name of its type."""

    name: str
    type: str
