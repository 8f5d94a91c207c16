"""Trino's functions as macros of DuckDB. Query processes import this module, so it imports nothing of the service."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PREFIX = "trino_"
_NAME = re.compile(rf"\b{PREFIX}\w+", re.IGNORECASE)


@cache
def load_macros() -> dict[str, str]:
    """Return the definitions by name."""
    text = Path(__file__).with_name("macros.sql").read_text("utf-8")
    found = (part.strip() for part in text.split("\n\n"))
    return {part.partition("(")[0]: part for part in found if part.startswith(PREFIX)}


def find_macros(sql: str) -> list[str]:
    """Return the statements that define the macros which a statement names, and before these the macros they name."""
    macros = load_macros()
    found: dict[str, str] = {}

    def add(text: str) -> None:
        for name in dict.fromkeys(each.lower() for each in _NAME.findall(text)):
            if name in macros and name not in found:
                add(macros[name].partition(" AS ")[2])
                found[name] = f"CREATE MACRO {macros[name]}"

    add(sql)
    return list(found.values())
