"""Notification rules."""
