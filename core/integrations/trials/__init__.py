"""Trials of pipelines for people who write them: the first rows, a page without its scripts, and selectors for it."""
