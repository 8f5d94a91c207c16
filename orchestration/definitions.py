"""The definitions that Dagster's code server loads."""

from __future__ import annotations

from dagster import Definitions

from orchestration.job import execute_pipeline

definitions = Definitions(jobs=[execute_pipeline])
