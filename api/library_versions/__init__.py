"""Builds of the engine."""
