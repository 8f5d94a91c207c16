"""Ticks of schedules, cron jobs and scheduled times: who fires when, and what comes of it."""
