"""Plugins that users upload, and the organizations that have them."""
