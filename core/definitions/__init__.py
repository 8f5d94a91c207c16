"""The records that users define: projects, jobs, agents, schedules, credentials, keys."""
