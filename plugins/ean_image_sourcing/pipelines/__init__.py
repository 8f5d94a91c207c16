"""Pipelines of the plugin."""
