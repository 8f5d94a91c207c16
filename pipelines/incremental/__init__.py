"""Incremental crawls: which pages earlier executions of a job have published, and what later ones do with them."""
