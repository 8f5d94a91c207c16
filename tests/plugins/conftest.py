"""Pipelines with stages of plugins run as those of the engine."""

from __future__ import annotations

from tests.pipelines.conftest import run, site

__all__ = ["run", "site"]
