"""Declarations: many records in one request."""
