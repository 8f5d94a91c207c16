"""Java libraries of formats, for tests that need them: in the folder SPINDLE_TEST_JARS, or else they are skipped."""

from __future__ import annotations

import os

import pytest


def has_libraries() -> bool:
    """Return whether there are libraries, and let the code find them."""
    folder = os.environ.get("SPINDLE_TEST_JARS")
    if folder:
        os.environ["SPINDLE_JARS"] = folder
    return bool(folder)


needs_libraries = pytest.mark.skipif(
    not os.environ.get("SPINDLE_TEST_JARS"),
    reason="SPINDLE_TEST_JARS names no folder of Java libraries; `spindle jars` makes one",
)
