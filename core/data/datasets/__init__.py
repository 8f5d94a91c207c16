"""Datasets: named tables with a pointer to their current version."""
