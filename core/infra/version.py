"""The version of the software and that of its REST API, which are counted apart."""

from __future__ import annotations

from importlib.metadata import version

API_VERSION = "1.0.0"


def get_version() -> str:
    """Return the version of the installed package."""
    return version("spindle")
