"""Passes: stages that work row by row, over Arrow batches of one partition, without Spark."""
