"""Spark sessions for scripts and notebooks; apart from `spindle`, since it imports PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["start_session"]


def start_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark with Spindle's settings, or return the running session; `conf` overrides the settings."""
    return session.start_session(master, conf=conf)
