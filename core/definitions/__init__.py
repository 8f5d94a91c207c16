"""What users define: projects, jobs, agents, schedules, credentials, keys."""
