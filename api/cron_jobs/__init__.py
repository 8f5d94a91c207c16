"""Cron jobs."""
