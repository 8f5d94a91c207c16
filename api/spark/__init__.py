"""Facts about Spark, and its health."""
