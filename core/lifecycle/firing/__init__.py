"""Ticks of schedules and cron jobs, scheduled times, and the executions that they begin."""
