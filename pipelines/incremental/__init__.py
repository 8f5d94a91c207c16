"""Incremental crawls: pages that earlier executions of a job have published, and their treatment by later ones."""
