"""The functions that a query may call, under DuckDB's names. The service imports this without DuckDB itself."""

from __future__ import annotations

from pathlib import Path

ALLOWED = frozenset(Path(__file__).with_name("functions.txt").read_text("utf-8").split())
ALLOWED_IN_FROM = frozenset({"unnest", "generate_series", "range"})
