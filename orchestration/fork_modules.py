"""Everything that Dagster's processes and ours around it import: a parent imports this module before it forks them."""

from __future__ import annotations

from dagster_webserver import cli as webserver

from orchestration import code_server, dagster_command, launcher
from orchestration.dagster_internals import import_before_fork
from pipelines.registry import import_engine

__all__ = ["code_server", "dagster_command", "launcher", "webserver"]

import_before_fork()
import_engine()
