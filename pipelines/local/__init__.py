"""The runner without Spark: the passes of a plan in one process, for plans that work row by row."""
