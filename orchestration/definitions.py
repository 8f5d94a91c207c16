"""What the code server loads: this module merges and does nothing else."""

from __future__ import annotations

from dagster import Definitions

from orchestration.job import execute_pipeline

definitions = Definitions(jobs=[execute_pipeline])
