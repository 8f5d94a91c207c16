"""Dagster and nothing else: one execution becomes one run, whose steps are the stages of its plan."""
