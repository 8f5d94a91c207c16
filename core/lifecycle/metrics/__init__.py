"""Usage and costs of executions: measured by drivers, priced when an attempt ends, summed up by day and month."""
