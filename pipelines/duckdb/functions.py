"""The functions that statements may call in DuckDB, under its names. The service imports this without DuckDB itself."""

from __future__ import annotations

from pathlib import Path

from pipelines.duckdb.macros import load_macros

OWN = frozenset(Path(__file__).with_name("functions.txt").read_text("utf-8").split())
ALLOWED = OWN | frozenset(load_macros()) | {"cast_to_type"}  # also what the translation calls
ALLOWED_IN_FROM = frozenset({"unnest", "generate_series", "range"})
