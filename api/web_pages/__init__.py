"""Previews of web pages."""
