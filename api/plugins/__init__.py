"""Plugins: the operations that they serve themselves, and their administration."""
