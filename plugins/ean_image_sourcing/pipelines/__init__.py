"""Pipelines that come with the plugin."""
