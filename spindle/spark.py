"""Spark sessions for scripts and notebooks; apart from `spindle`, since it imports PySpark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.spark import session
from pipelines.spark.tasks import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["build_conf", "map_in_arrow", "start_session"]


def start_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark with Spindle's settings, or return the running session; `conf` overrides the settings."""
    return session.start_session(master, conf=conf)


def build_conf(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the configuration of the sessions that execute pipelines, for sessions that others start.

    The heap is that of SPINDLE_SPARK_DRIVER_MEMORY; `conf` overrides everything. It also sets the environment variables
    that Spark has instead of settings, like the interpreter of its workers.
    """
    session.set_environment(master)
    memory = os.environ.get("SPINDLE_SPARK_DRIVER_MEMORY")
    return session.build_conf(master, conf={**({"spark.driver.memory": memory} if memory else {}), **(conf or {})})
