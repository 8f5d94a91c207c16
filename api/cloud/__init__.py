"""Cron jobs, and facts about Spark."""
