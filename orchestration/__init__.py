"""Everything that imports Dagster: one execution is one run of one job, with a step for every stage of its plan."""
