"""Cron jobs: cron schedules whose ticks post to an address that their user names."""
