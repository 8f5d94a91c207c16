"""Java libraries of formats, for tests that need them: in the folder SPINDLE_TEST_JARS, or else they are skipped."""

from __future__ import annotations

import os

import pytest

from pipelines.spark.jars import LibrariesMissing, require_jars

FOLDER = os.environ.get("SPINDLE_TEST_JARS")
if FOLDER:
    os.environ["SPINDLE_JARS"] = FOLDER  # also for the services that tests start

needs_libraries = pytest.mark.skipif(
    not FOLDER, reason="SPINDLE_TEST_JARS names no folder of Java libraries; `spindle jars` makes one"
)


def has_libraries() -> bool:
    return bool(FOLDER)


def can_have(library: str) -> bool:
    """Whether a library that the folder may lack is there, or can be fetched into it."""
    try:
        return has_libraries() and bool(require_jars([library]))
    except LibrariesMissing:
        return False
