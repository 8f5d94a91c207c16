"""Events of executions, for live streams and webhooks."""
