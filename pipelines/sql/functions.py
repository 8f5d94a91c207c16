"""Trino's functions, of which an engine offers all or some."""

from __future__ import annotations

from pathlib import Path

TRINO_FUNCTIONS = frozenset(Path(__file__).with_name("functions.txt").read_text("utf-8").split())
