"""Plugins that users upload, and who has them."""
