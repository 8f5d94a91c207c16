"""Schedules of projects."""
