"""Pages rendered by Chromium, which Playwright controls, behind the fetch guard.

This package imports nothing: Playwright takes long to load, and only workers that visit pages need it.
"""
