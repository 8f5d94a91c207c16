"""A Trino that others run: SPINDLE_TEST_TRINO has its address, SPINDLE_TEST_TRINO_RULES the file of its rules."""

from __future__ import annotations

import os
from typing import Any

import pytest

ADDRESS = os.environ.get("SPINDLE_TEST_TRINO")
RULES = os.environ.get("SPINDLE_TEST_TRINO_RULES")
HAS_TRINO = ADDRESS is not None and RULES is not None
ENGINES = ("duckdb", *(("trino",) if ADDRESS else ()))

TEN_THOUSAND = "UNNEST(sequence(1, 10000))"  # as many as Trino allows
ENDLESS = (
    f"SELECT count(*) FROM {TEN_THOUSAND} AS a(x), {TEN_THOUSAND} AS b(y), {TEN_THOUSAND} AS c(z) WHERE x = y * z + 1e9"
)


def trino_settings() -> dict[str, Any]:
    """Return the settings that select the Trino of the environment; skip the test without one."""
    if ADDRESS is None or RULES is None:
        pytest.skip("SPINDLE_TEST_TRINO and SPINDLE_TEST_TRINO_RULES name no Trino")
    return {"trino": ADDRESS, "trino_rules": RULES}


def trino_environment() -> dict[str, str]:
    """The same as variables of a service."""
    return {f"SPINDLE_{name.upper()}": value for name, value in trino_settings().items()}


def engine_settings(engine: str) -> dict[str, Any]:
    """Return the settings that select an engine by name, whatever the environment has."""
    return trino_settings() if engine == "trino" else {"trino": None}
