"""Jobs as Dagster shows them: steps and upstream jobs."""
