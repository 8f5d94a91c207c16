"""Queries that run in the background: their records, the threads that run them, and their stored results."""
