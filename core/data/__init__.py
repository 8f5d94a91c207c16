"""Datasets, their files and SQL over them."""
