"""Partitions of jobs, and executions of many of them."""
