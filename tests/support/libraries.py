"""Java libraries of formats, for tests that need them: in the folder SPINDLE_TEST_JARS, or else they are skipped."""

from __future__ import annotations

import os

import pytest

FOLDER = os.environ.get("SPINDLE_TEST_JARS")
if FOLDER:
    os.environ["SPINDLE_JARS"] = FOLDER  # also for the services that tests start

needs_libraries = pytest.mark.skipif(
    not FOLDER, reason="SPINDLE_TEST_JARS names no folder of Java libraries; `spindle jars` makes one"
)


def has_libraries() -> bool:
    return bool(FOLDER)
