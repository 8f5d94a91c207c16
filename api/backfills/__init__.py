"""Partitions of jobs and their backfills."""
