"""A Trino that others run: SPINDLE_TEST_TRINO has its address, SPINDLE_TEST_TRINO_RULES the file of its rules."""

from __future__ import annotations

import os
from typing import Any

import pytest

ADDRESS = os.environ.get("SPINDLE_TEST_TRINO")
RULES = os.environ.get("SPINDLE_TEST_TRINO_RULES")
ENGINES = ("duckdb", *(("trino",) if ADDRESS else ()))


def trino_settings() -> dict[str, Any]:
    """Return the settings that select the Trino of the environment; skip the test without one."""
    if ADDRESS is None or RULES is None:
        pytest.skip("SPINDLE_TEST_TRINO and SPINDLE_TEST_TRINO_RULES name no Trino")
    return {"trino": ADDRESS, "trino_rules": RULES}


def engine_settings(engine: str) -> dict[str, Any]:
    """Return the settings that select an engine by name."""
    return trino_settings() if engine == "trino" else {}
