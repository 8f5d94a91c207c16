"""Datasets: named tables, each with a pointer to its current version."""
