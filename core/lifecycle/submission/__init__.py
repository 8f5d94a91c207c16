"""Accepting executions."""
