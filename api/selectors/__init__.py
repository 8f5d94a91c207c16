"""Proven selectors."""
