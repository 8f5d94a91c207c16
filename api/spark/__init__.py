"""Spark, as clients ask for it."""
